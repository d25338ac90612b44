package agents

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/agent"
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
func (s *Service) equip(_ context.Context, q Question, r *agent.Run, target query.Target, _ *v1alpha1.Environment) error {
	r.Tools = semantic.Tools(semantic.Options{
		Runner: s.runner, Target: target, Limits: query.Limits{Rows: maxRows, Bytes: maxBytes, Duration: queryTimeout},
		AccessibleViews: q.Agent.Spec.AccessibleViews, SQL: q.Asker.MayUseSQL(), NewID: uuid.NewString,
	})
	r.System = s.prompt(q)
	return nil
}

// basics is the beginning of all system prompts. It has nothing of a person, so that the provider's cache of it serves all.
const basics = `You answer questions about the data of a company. The data is in a semantic model of views, which have measures and dimensions.
Find the members that a question needs with cubeMeta, then query them. Use only members that cubeMeta has returned, and numbers that a query has returned: never invent or estimate them.
You see what the user may see, and nothing else. If a result has ForbiddenError, tell the user that they may not see this data. If a query returns no rows, say that there are none.
If a query fails, correct it and try again, at most three times. If you cannot answer, say why.
Answer in the language of the question, briefly: the result first, then how it was computed if that is not obvious.`

// prompt returns the system prompt.
func (s *Service) prompt(q Question) string {
	var out strings.Builder
	out.WriteString(basics)
	if len(q.Agent.Spec.AccessibleViews) > 0 {
		out.WriteString("\n\nPrefer these views: " + strings.Join(q.Agent.Spec.AccessibleViews, ", ") + ".")
	}
	if text := strings.TrimSpace(q.Agent.Spec.Instructions); text != "" {
		out.WriteString("\n\nInstructions of the administrators of this agent:\n" + text)
	}
	// The day, not the time: the prompt is the same for many requests.
	out.WriteString("\n\nToday is " + s.Clock.Now().UTC().Format("Monday, 2 January 2006") + " (UTC).")
	return out.String()
}
