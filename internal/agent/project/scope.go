package project

import "slices"

// Configured is what the files configure for one agent.
type Configured struct {
	Agent
	// IsDeclared reports whether the files have the agent. If not, it has the space Auto and defaults.
	IsDeclared bool
	Rules      []Rule
	Skills     []Skill
	Queries    []Query
	// Questions are those for evaluations.
	Questions []Question
}

// For returns the configuration of an agent. Files with a single agent configure every agent of the deployment.
func (p *Project) For(name string) Configured {
	c := Configured{Agent: unconfigured(name)}
	at := slices.IndexFunc(p.Agents, func(a Agent) bool { return a.Name == name })
	switch {
	case at >= 0:
		c.Agent, c.IsDeclared = p.Agents[at], true
	case !p.IsMulti && len(p.Agents) == 1:
		c.Agent, c.IsDeclared = p.Agents[0], p.HasFiles
		c.Name = name
	}
	for _, r := range p.Rules {
		if r.Space == c.Space {
			c.Rules = append(c.Rules, r)
		}
	}
	c.Skills = p.SkillsOf(c.Space)
	for _, q := range p.Queries {
		if q.Space == c.Space {
			c.Queries = append(c.Queries, q)
		}
	}
	for _, q := range p.Questions {
		if q.Space == c.Space {
			c.Questions = append(c.Questions, q)
		}
	}
	return c
}

// SkillsOf returns the skills of a space.
func (p *Project) SkillsOf(space string) []Skill {
	var out []Skill
	for _, s := range p.Skills {
		if s.Space == space {
			out = append(out, s)
		}
	}
	return out
}

// HasSpace reports whether a space exists.
func (p *Project) HasSpace(name string) bool {
	return name == Auto || slices.ContainsFunc(p.Spaces, func(s Space) bool { return s.Name == name })
}

// Query returns a certified query of a space.
func (p *Project) Query(space, name string) (Query, bool) {
	at := slices.IndexFunc(p.Queries, func(q Query) bool { return q.Space == space && q.Name == name })
	if at < 0 {
		return Query{}, false
	}
	return p.Queries[at], true
}
