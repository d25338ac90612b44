package project

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// rootKeys are the properties of an agent that single-agent files have at their root.
var rootKeys = []string{"llm", "embedding_llm", "runtime", "accessible_views", "memory_mode"}

// config reads the configuration. A second file, config.yaml beside config.yml, is an error.
func (p *parser) config(files []File) {
	var found *File
	for i := range files {
		if kindOf(p.relative(files[i].Path)) != configFile {
			continue
		}
		if found != nil {
			p.problem(files[i].Path, 0, "", "%s exists too; allowed: one of both", found.Path)
			continue
		}
		found = &files[i]
	}
	var m *mapping
	if found != nil {
		m = document{parser: p, path: found.Path}.read(found.Text)
	}
	if m == nil {
		p.project.Agents = []Agent{unconfigured(Auto)}
		return
	}
	isMulti := m.has("agents") || m.has("spaces")
	p.project.IsMulti = isMulti
	if isMulti {
		p.several(m)
	} else {
		p.single(m)
	}
	p.inline(m, Auto)
	m.warnUnknown()
}

// unconfigured returns an agent that has no configuration.
func unconfigured(name string) Agent {
	return Agent{Name: name, Space: Auto, Runtime: RuntimePlain, Memory: MemorySpace}
}

// single reads the agent whose properties are at the root.
func (p *parser) single(m *mapping) {
	before := p.errors
	a := m.agent()
	a.Name, a.Space = Auto, Auto
	if p.errors > before {
		a = unconfigured(Auto)
	}
	p.project.Agents = []Agent{a}
}

// several reads agents and spaces.
func (p *parser) several(m *mapping) {
	for _, key := range rootKeys {
		if m.get(key) != nil {
			m.fail(key, "the file has agents or spaces too; allowed: properties of one agent at the root, or agents and spaces")
		}
	}
	m.mappings("spaces", MaxAgents, func(item *mapping) {
		before := p.errors
		s := Space{Name: item.identifier(""), Description: item.text("description", MaxDescription), Place: item.place("")}
		if p.errors == before && (s.Name == Auto || p.spaces[s.Name]) {
			item.fail("name", "%q is the name of another space; allowed: names that no other space has", clip(s.Name))
		}
		if p.errors == before && strings.Contains(s.Name, "/") {
			item.fail("name", "%q contains a slash; allowed: names without", clip(s.Name))
		}
		if p.errors == before {
			p.spaces[s.Name] = true
			p.project.Spaces = append(p.project.Spaces, s)
		}
		p.inline(item, s.Name)
	})
	names := map[string]bool{}
	m.mappings("agents", MaxAgents, func(item *mapping) {
		before := p.errors
		a := item.agent()
		a.Name, a.Description = item.identifier(""), item.text("description", MaxDescription)
		a.Space = item.required("space", MaxName)
		if a.Space != "" {
			p.checkSpace(item, a.Space)
		}
		if a.Name != "" && names[a.Name] {
			item.fail("name", "%q is the name of another agent; allowed: names that no other agent has", clip(a.Name))
		}
		if p.errors == before {
			names[a.Name] = true
			p.project.Agents = append(p.project.Agents, a)
		}
	})
}

// checkSpace reports a space that does not exist.
func (p *parser) checkSpace(m *mapping, space string) {
	if p.spaces[space] {
		return
	}
	allowed := []string{Auto}
	for _, s := range p.project.Spaces[:min(len(p.project.Spaces), 20)] {
		allowed = append(allowed, clip(s.Name))
	}
	m.fail("space", "%q does not exist; allowed: %s", clip(space), strings.Join(allowed, ", "))
}

// agent reads the properties that single agents and agents in a list have.
func (m *mapping) agent() Agent {
	return Agent{
		Model: m.model("llm"), Embedding: m.model("embedding_llm"),
		Runtime: m.choice("runtime", RuntimePlain, RuntimeReasoning), Memory: m.choice("memory_mode", MemorySpace, MemoryUser, MemoryDisabled),
		Views: slices.Compact(m.texts("accessible_views", MaxViews)), Place: m.place(""),
	}
}

// model reads a name, or {byom: {name: …}}.
func (m *mapping) model(key string) Model {
	n := m.get(key)
	if n == nil || n.Kind == yaml.ScalarNode {
		return Model{Name: m.text(key, MaxName)}
	}
	outer := m.mapping(m.name(key), n)
	if outer == nil {
		return Model{}
	}
	defer outer.warnUnknown()
	inner := outer.get("byom")
	if inner == nil {
		outer.fail("byom", "it is absent; allowed: a name, or byom with a name")
		return Model{}
	}
	own := outer.mapping(outer.name("byom"), inner)
	if own == nil {
		return Model{}
	}
	defer own.warnUnknown()
	return Model{Name: own.required("name", MaxName), IsOwn: true}
}
