// Package replay runs messages of recorded chats again, and compares what an agent does then with what it did. It knows neither who
// asks nor where chats are stored.
//
//	recording.go  tools that return recorded results
//	diff.go       compares two answers to a message
//	results.go    results of queries in recorded calls
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// ErrDiverged ends an answer on recorded results in which a tool was called otherwise than in the recording: what it would have
// returned is not known.
var ErrDiverged = errors.New("the agent has called a tool otherwise than in the recording")

// divergence is the class of the failure that such a call has.
const divergence = "NotRecordedError"

// Recording has the calls of a recorded answer. It is safe for concurrent use.
type Recording struct {
	mu       sync.Mutex
	calls    map[string][]string
	diverged bool
}

// RecordingOf returns the recording of an answer with messages. Calls without a result, of an answer that was interrupted, are not a
// part of it.
func RecordingOf(messages []stream.Message) *Recording {
	r := &Recording{calls: map[string][]string{}}
	for i := range messages {
		if c := messages[i].ToolCall; c != nil && c.Result != nil {
			k := keyOf(c.Name, c.Input)
			r.calls[k] = append(r.calls[k], *c.Result)
		}
	}
	return r
}

// keyOf returns a text that is equal for calls of the same tool with the same input, whatever its white space and the order of its
// fields are.
func keyOf(tool, input string) string {
	var value any
	decoder := json.NewDecoder(strings.NewReader(input))
	decoder.UseNumber()
	if decoder.Decode(&value) == nil {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out) // the fields of objects are sorted
		encoder.SetEscapeHTML(false)
		if encoder.Encode(value) == nil {
			input = strings.TrimSpace(out.String())
		}
	}
	return tool + " " + input
}

// Tools returns tools that return what is recorded instead of running. Equal calls have the recorded results one after the other, and
// then the last one again. Tools for which isLive is true run.
func (r *Recording) Tools(tools []agent.Tool, isLive func(name string) bool) []agent.Tool {
	out := make([]agent.Tool, len(tools))
	for i, t := range tools {
		if out[i] = t; isLive(t.Name) {
			continue
		}
		out[i].Run = func(_ context.Context, in agent.Input) (*agent.Result, error) {
			return r.result(t.Name, string(in.JSON))
		}
	}
	return out
}

// result returns the recorded result of a call.
func (r *Recording) result(tool, input string) (*agent.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := keyOf(tool, input)
	all := r.calls[k]
	if len(all) == 0 {
		r.diverged = true
		return nil, &agent.ToolError{Class: divergence, Message: "this call is not in the recording"}
	}
	if len(all) > 1 {
		r.calls[k] = all[1:]
	}
	if class, message, failed := failureOf(all[0]); failed {
		return nil, &agent.ToolError{Class: class, Message: message}
	}
	return &agent.Result{Wire: json.RawMessage(all[0])}, nil
}

// failureOf returns the class and the message of a result of a call that has failed.
func failureOf(result string) (class, message string, failed bool) {
	var f struct{ Error *string }
	if json.Unmarshal([]byte(result), &f) != nil || f.Error == nil {
		return "", "", false
	}
	rest, isOurs := strings.CutPrefix(*f.Error, "Error: ")
	class, message, hasClass := strings.Cut(rest, ": ")
	if !isOurs || !hasClass {
		return agent.InternalError, *f.Error, true
	}
	return class, message, true
}

// Model returns a model that is not asked again after a turn in which a call was not in the recording. The error is then ErrDiverged.
func (r *Recording) Model(m model.Model) model.Model { return &untilDivergence{m, r} }

type untilDivergence struct {
	model.Model
	recording *Recording
}

// Stream implements model.Model.
func (u *untilDivergence) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	u.recording.mu.Lock()
	defer u.recording.mu.Unlock()
	if u.recording.diverged {
		return func(yield func(model.Event, error) bool) { yield(model.Event{}, ErrDiverged) }
	}
	return u.Model.Stream(ctx, in)
}
