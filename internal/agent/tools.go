package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

const (
	// maxWire is the maximum length of a result for the client in bytes. In a JSON text it is shorter than stream.MaxLine.
	maxWire = 256 << 10
	// maxResult is the maximum length of a result for the model in bytes.
	maxResult = 32 << 10
	// maxInput is the maximum length of an input in bytes.
	maxInput = 64 << 10
)

// call runs calls in parallel and returns their results, in the order of the calls. Each may read an equal share of the rows that are
// left: what it does not read is left for the next turn. The error is that of the context, of the log or of the audit log.
func (s *state) call(ctx context.Context, calls []model.ToolCall) ([]model.ToolResult, error) {
	results, failed := make([]model.ToolResult, len(calls)), make([]error, len(calls))
	slots := make(chan struct{}, s.Limits.Parallel)
	left := max(s.Limits.Rows-s.Rows, 0)
	var group sync.WaitGroup
	for i := range calls {
		rows := left / len(calls)
		if i < left%len(calls) {
			rows++
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			results[i], failed[i] = s.callOne(ctx, &calls[i], rows)
		})
	}
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	// A call that ends the run has failed like the others, but the model is not told.
	return results, errors.Join(append(failed, s.ended)...)
}

// Call runs one call of a tool without the model, with the same records, and with the limits of a run of its own. The lines of the
// call are in the log when it returns. The error is that of the context, of the log or of the audit log, or of a call that ends the run.
func (r *Run) Call(ctx context.Context, tool string, input json.RawMessage) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Limits.Time, limitReached("%s", r.Limits.Time))
	defer cancel()
	s := &state{Run: r}
	if _, err := s.callOne(ctx, &model.ToolCall{ID: tool, Name: tool, Input: input}, r.Limits.Rows); err != nil {
		return err
	}
	return errors.Join(context.Cause(ctx), s.ended)
}

// callOne records a call, runs it, and records its outcome. rows is the number of rows that it may read.
func (s *state) callOne(ctx context.Context, in *model.ToolCall, rows int) (model.ToolResult, error) {
	c := Call{ID: s.newID(), Tool: in.Name, Input: in.Input}
	if cause := context.Cause(ctx); cause != nil {
		return model.ToolResult{}, cause
	}
	if err := s.Audit.Before(ctx, c); err != nil {
		return model.ToolResult{}, fmt.Errorf("record a tool call: %w", err)
	}
	if err := s.append(ctx, stream.ToolStarted(c.ID, c.Tool, shownInput(c.Input))); err != nil {
		// Without its outcome, the event would be that of a call which may have run.
		return model.ToolResult{}, errors.Join(err, s.after(ctx, c, Outcome{Failed: AbortError}))
	}
	begun := s.now()
	result, err := s.run(ctx, in, rows)
	o := Outcome{Duration: s.now().Sub(begun)}
	out := model.ToolResult{CallID: in.ID}
	wire := ""
	if err != nil {
		o.Failed, out.Failed = err.Class, true
		wire = stream.ToolError(err.Class, err.Message)
		out.Text = s.Fence.Around(c.Tool, wire)
	} else {
		o.Rows, wire = result.Rows, string(result.Wire)
		if out.Text = clipped(result); !result.Instructions {
			out.Text = s.Fence.Around(c.Tool, out.Text)
		}
	}
	recorded := s.after(ctx, c, o)
	if recorded != nil {
		// Without the event of its outcome, a result is not shown.
		wire = stream.ToolError(InternalError, "the outcome could not be recorded")
	}
	return out, errors.Join(recorded, s.append(ctx, stream.ToolEnded(c.ID, c.Tool, shownInput(c.Input), wire)))
}

// after records the outcome of a call, also when the context of the run has ended.
func (s *state) after(ctx context.Context, c Call, o Outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := s.Audit.After(ctx, c, o); err != nil {
		return fmt.Errorf("record the outcome of a tool call: %w", err)
	}
	return nil
}

// newID returns the id of a line. Calls are made in parallel.
func (s *state) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.NewID()
}

// shownInput returns an input for the client.
func shownInput(input json.RawMessage) string {
	if len(input) > maxInput {
		return "{}"
	}
	return string(input)
}

// clipped returns a result for the model.
func clipped(r *Result) string {
	text := r.Text
	if text == "" {
		text = string(r.Wire)
	}
	if len(text) > maxResult {
		return head(text, maxResult) + "\n(the rest is cut: ask for less)"
	}
	return text
}

// run runs the tool of a call. It returns when the context ends, even if the tool does not.
func (s *state) run(ctx context.Context, in *model.ToolCall, rows int) (*Result, *ToolError) {
	tool, err := s.tool(in)
	if err != nil {
		return nil, err
	}
	if rows <= 0 {
		return nil, &ToolError{LimitError, fmt.Sprintf("the limit of %d rows for this answer is reached", s.Limits.Rows)}
	}
	type returned struct {
		result *Result
		err    error
	}
	done := make(chan returned, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- returned{err: fmt.Errorf("panic: %v", p)}
			}
		}()
		result, err := tool.Run(ctx, Input{JSON: in.Input, MaxRows: rows})
		done <- returned{result, err}
	}()
	select {
	case <-ctx.Done():
		return nil, &ToolError{AbortError, "the run has ended"}
	case r := <-done:
		if r.err != nil || r.result == nil {
			return nil, s.failure(ctx, in.Name, r.err)
		}
		return s.checked(in.Name, r.result)
	}
}

// tool returns the tool that a call names.
func (s *state) tool(in *model.ToolCall) (*Tool, *ToolError) {
	switch {
	case in.Invalid != "":
		return nil, &ToolError{BadRequestError, in.Invalid}
	case len(in.Input) > maxInput:
		return nil, &ToolError{BadRequestError, fmt.Sprintf("the input has %d bytes; allowed: %d", len(in.Input), maxInput)}
	}
	var names []string
	for i := range s.Tools {
		if s.Tools[i].Name == in.Name {
			return &s.Tools[i], nil
		}
		names = append(names, s.Tools[i].Name)
	}
	return nil, &ToolError{BadRequestError, fmt.Sprintf("there is no tool %.100q; the tools are: %s", in.Name, strings.Join(names, ", "))}
}

// failure returns the failure of a tool that is shown.
func (s *state) failure(ctx context.Context, tool string, err error) *ToolError {
	var shown *ToolError
	var ended *Ended
	switch {
	case errors.As(err, &shown):
		return shown
	case errors.As(err, &ended):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = ended
		return &ToolError{AbortError, "the run has ended"}
	case ctx.Err() != nil:
		return &ToolError{AbortError, "the run has ended"}
	}
	if s.OnInternal != nil {
		s.OnInternal(tool, err)
	}
	return &ToolError{InternalError, "the tool has failed"}
}

// checked counts the rows of a result, and returns it if it can be sent.
func (s *state) checked(tool string, r *Result) (*Result, *ToolError) {
	s.mu.Lock()
	s.Rows += r.Rows
	s.mu.Unlock()
	switch {
	case len(r.Wire) > maxWire:
		return nil, &ToolError{LimitError, fmt.Sprintf("the result has %d bytes; allowed: %d: ask for fewer rows or columns", len(r.Wire), maxWire)}
	case !json.Valid(r.Wire):
		return nil, s.failure(context.Background(), tool, errors.New("the result is not JSON"))
	}
	return r, nil
}
