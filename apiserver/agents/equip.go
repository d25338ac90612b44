package agents

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/query"
)

// Limits of a query of an agent. The rows that are left of a run are a limit too.
const (
	maxRows      = 10_000
	maxBytes     = 8 << 20
	queryTimeout = 2 * time.Minute
)

// equip sets the tools and the system prompt of a run.
func (s *Service) equip(ctx context.Context, q Question, r *agent.Run, target query.Target) error {
	files, err := s.filesOf(ctx, q)
	if err != nil {
		return err
	}
	views := q.Agent.Spec.AccessibleViews
	if len(views) == 0 {
		views = files.Views
	}
	o := semantic.Options{
		Runner: s.runner, Target: target, Limits: query.Limits{Rows: maxRows, Bytes: maxBytes, Duration: queryTimeout},
		AccessibleViews: views, SQL: q.Asker.MayUseSQL(), NewID: uuid.NewString, OnTable: q.OnTable,
	}
	for _, c := range files.Queries {
		o.CertifiedQueries = append(o.CertifiedQueries, semantic.CertifiedQuery{Name: c.Name, UserRequest: c.UserRequest, Description: c.Description, SQL: c.SQL()})
	}
	for _, c := range files.Skills {
		o.Skills = append(o.Skills, semantic.Skill{Name: c.Name, Title: c.Title, Description: c.Description, Instructions: c.Instructions})
	}
	// Rules that a model requests are read as skills are.
	for _, c := range files.Rules {
		if !c.Always {
			o.Skills = append(o.Skills, semantic.Skill{Name: "rule-" + c.Name, Title: "Rule " + c.Name, Description: c.Description, Instructions: c.Prompt})
		}
	}
	r.Tools, r.System = semantic.Tools(o), s.prompt(q, views, files.Rules)
	return nil
}

// filesOf returns what files configure for the agent.
func (s *Service) filesOf(ctx context.Context, q Question) (*project.Configured, error) {
	switch {
	case q.Files != nil:
		return q.Files, nil
	case s.Files != nil:
		return s.Files(ctx, q.Agent.Agent, q.Agent.Deployment, q.Branch)
	}
	return &project.Configured{}, nil
}

// maxRules is the size of the rules of a prompt in bytes.
const maxRules = 64 << 10

// basics is the beginning of all system prompts. It has nothing of a person, so that the provider's cache of it serves all.
const basics = `You answer questions about the data of a company. The data is in a semantic model of views, which have measures and dimensions.
Find the members that a question needs with cubeMeta, then query them. Use only members that cubeMeta has returned, and numbers that a query has returned: never invent or estimate them.
You see what the user may see, and nothing else: if cubeMeta does not have what they ask for, say that it is not available to them, and not that it does not exist. If a result has ForbiddenError, tell the user that they may not see this data. If a query returns no rows, say that there are none.
If a query fails, correct it and try again, at most three times. If you cannot answer, say why.
Answer in the language of the question, briefly: the result first, then how it was computed if that is not obvious.`

// prompt returns the system prompt.
func (s *Service) prompt(q Question, views []string, rules []project.Rule) string {
	var out strings.Builder
	out.WriteString(basics)
	if len(views) > 0 {
		out.WriteString("\n\nPrefer these views: " + strings.Join(views, ", ") + ".")
	}
	left := maxRules
	for _, rule := range rules {
		if !rule.Always {
			continue
		}
		if left -= len(rule.Prompt); left >= 0 {
			out.WriteString("\n\nRule " + rule.Name + ":\n" + strings.TrimSpace(rule.Prompt))
		}
	}
	if text := strings.TrimSpace(q.Agent.Spec.Instructions); text != "" {
		out.WriteString("\n\nInstructions of the administrators of this agent:\n" + text)
	}
	// The day, not the time: the prompt is the same for many requests.
	out.WriteString("\n\nToday is " + s.Clock.Now().UTC().Format("Monday, 2 January 2006") + " (UTC).")
	return out.String()
}
