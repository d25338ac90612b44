package agents

import (
	"context"
	"strconv"
	"sync"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/audit"
)

// calledTool is the name of an event.
var calledTool = audit.Declare("Called agent tool")

// calls records the tool calls of a run. It implements agent.Audit.
type calls struct {
	question Question

	mu   sync.Mutex
	open map[string]*recording.Action
}

// maxShownInput is the length of an input in an event in bytes.
const maxShownInput = 8 << 10

// Before implements agent.Audit. The event is attempted until the outcome is known.
func (c *calls) Before(ctx context.Context, call agent.Call) error {
	a, q := c.question.Agent, &c.question
	input := string(call.Input)
	if len(input) > maxShownInput {
		input = input[:maxShownInput]
	}
	details := map[string]any{"tool": call.Tool, "input": input, "asker": q.Asker.Owner, "chat": q.ChatID, "message": q.MessageID, "call": call.ID}
	if q.Evaluation != 0 {
		details["evaluation"] = q.Evaluation
	}
	action, err := recording.Begin(ctx, audit.Event{
		Name: calledTool, Deployment: audit.Deployment{ID: a.Deployment.Labels[v1alpha1.LabelID], Name: a.Deployment.Name},
		Object: audit.Object{Kind: "Agent", Namespace: a.Namespace, Name: a.Name, ID: strconv.FormatInt(a.ID, 10)},
	}, details)
	if err != nil || action == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]*recording.Action{}
	}
	c.open[call.ID] = action
	return nil
}

// After implements agent.Audit.
func (c *calls) After(ctx context.Context, call agent.Call, o agent.Outcome) error {
	c.mu.Lock()
	action := c.open[call.ID]
	delete(c.open, call.ID)
	c.mu.Unlock()
	if action == nil { // the account has no audit log
		return nil
	}
	outcome := audit.Succeeded
	if o.Failed != "" {
		outcome = audit.Failed
	}
	return action.End(ctx, outcome, o.Failed, map[string]any{"rows": o.Rows, "milliseconds": o.Duration.Milliseconds()})
}
