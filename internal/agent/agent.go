// Package agent answers messages with a language model and tools: the model is asked, the tools that it calls are run, and the
// model is asked again with their results, until it answers or a limit is reached.
//
// The identity of the asker is not a part of this package: the tools of a run have it, and no input of a tool does. What tools
// return is data for the model, and never an instruction: it is fenced.
//
//	agent.go     a run: its options, limits and outcome
//	turn.go      one request to the model, whose text is streamed
//	tools.go     tool calls: in parallel, each recorded before it runs and with its outcome
//	fence.go     data is marked as data
//	context.go   the conversation: from the lines of a thread, and cut at pairs of calls and results
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// ErrAborted is the cause with which the context of a run is ended by its user.
var ErrAborted = errors.New("the run was aborted")

// Tool is a tool of a run.
type Tool struct {
	model.Tool
	// Run runs a call. It must return soon after the context has ended. An error is an *ToolError, an *Ended, or one that is not shown.
	Run func(ctx context.Context, in Input) (*Result, error)
}

// Input is the input of a call.
type Input struct {
	// JSON is what the model has sent, an object.
	JSON json.RawMessage
	// MaxRows is the number of rows that the call may read.
	MaxRows int
}

// Result is the result of a call.
type Result struct {
	// Wire is what the client gets, a JSON text.
	Wire json.RawMessage
	// Text is what the model gets; Wire if it is empty.
	Text string
	// Rows is the number of rows of data in it.
	Rows int
	// Instructions is true for a text of the authors of the agent, which the model may follow. It is not fenced, so it must have no data.
	Instructions bool
}

// ToolError is a failure of a call, which the model and the client are told.
type ToolError struct {
	// Class is a name such as BadRequestError. ForbiddenError tells a model that data exists which the asker must not see, so that
	// it does not report that there is none.
	Class   string
	Message string
}

// Error implements error.
func (e *ToolError) Error() string { return e.Class + ": " + e.Message }

// Ended is the error of a call after which the run must not go on, such as that the asker is no longer authenticated.
type Ended struct{ Err error }

// Error implements error.
func (e *Ended) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Ended) Unwrap() error { return e.Err }

// Classes of failures.
const (
	BadRequestError = "BadRequestError"
	ForbiddenError  = "ForbiddenError"
	LimitError      = "LimitError"
	AbortError      = "AbortError"
	InternalError   = "InternalError"
	// UnavailableError is a failure after which the same call can succeed later.
	UnavailableError = "UnavailableError"
)

// Limits of a run. All must be positive.
type Limits struct {
	// Turns is the number of requests to the model, Calls that of tool calls, and Parallel that of calls at a time.
	Turns, Calls, Parallel int
	// Tokens is the number of tokens of all requests together, and Answer that of one answer.
	Tokens, Answer int64
	// Rows is the number of rows that tools may read.
	Rows int
	// Time is the duration of the run.
	Time time.Duration
	// Context is the size of the conversation that is sent, in bytes.
	Context int
}

// Log appends a line to the thread. It sets its sort.
type Log interface {
	Append(ctx context.Context, line stream.Line) error
}

// Audit records tool calls. A call whose event cannot be stored does not run, and the run ends.
type Audit interface {
	Before(ctx context.Context, c Call) error
	After(ctx context.Context, c Call, o Outcome) error
}

// Call is a tool call. ID is the id of its lines.
type Call struct {
	ID, Tool string
	Input    json.RawMessage
}

// Outcome is that of a call.
type Outcome struct {
	Rows     int
	Duration time.Duration
	// Failed is the reason of a failure; empty for a success.
	Failed string
}

// Run is the answer to a message.
type Run struct {
	Model  model.Model
	System string
	Tools  []Tool
	Limits Limits
	Log    Log
	Audit  Audit
	Fence  Fence
	// ShowThinking adds the thinking of the model to the lines.
	ShowThinking bool
	Thinking     int64
	Temperature  *float64
	// NewID returns ids of lines.
	NewID func() string
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// OnInternal is called with errors of tools that are not shown; it may be nil.
	OnInternal func(tool string, err error)
}

// Summary is what a run has used and said.
type Summary struct {
	Usage model.Usage
	Turns int
	Calls int
	Rows  int
	// Messages are those that the run has added to the conversation.
	Messages []model.Message
}

// LimitReached is the error of a run that has reached a limit.
type LimitReached struct{ Message string }

// Error implements error.
func (e *LimitReached) Error() string { return e.Message }

func limitReached(format string, args ...any) error {
	return &LimitReached{"the agent has reached its limit of " + fmt.Sprintf(format, args...)}
}

// state is a run in progress.
type state struct {
	*Run
	Summary
	messages []model.Message
	// mu guards Log, which parallel calls use, rows, and what follows.
	mu sync.Mutex
	// ended is the error of a call that ends the run; nil if there is none.
	ended error
}

// Answer runs until the model has answered the last message. The lines of the answer are in the log when it returns. The error is
// ErrAborted, a *LimitReached, a *model.Error, an *Ended, or one of the log or of the audit log; what was said before it is in the log.
func (r *Run) Answer(ctx context.Context, messages []model.Message) (*Summary, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Limits.Time, limitReached("%s", r.Limits.Time))
	defer cancel()
	s := &state{Run: r, messages: messages}
	for {
		if s.Turns == r.Limits.Turns {
			return &s.Summary, limitReached("%d turns", r.Limits.Turns)
		}
		reply, err := s.turn(ctx)
		if err != nil {
			return &s.Summary, err
		}
		if len(reply.Calls) == 0 {
			return &s.Summary, nil
		}
		if used := s.Usage.Input + s.Usage.Output; used >= r.Limits.Tokens {
			return &s.Summary, limitReached("%d tokens", r.Limits.Tokens)
		}
		if s.Calls += len(reply.Calls); s.Calls > r.Limits.Calls {
			return &s.Summary, limitReached("%d tool calls", r.Limits.Calls)
		}
		results, err := s.call(ctx, reply.Calls)
		if err != nil {
			return &s.Summary, err
		}
		s.add(model.Message{Role: model.User, Results: results})
	}
}

// add adds a message to the conversation.
func (s *state) add(m model.Message) {
	s.messages, s.Messages = append(s.messages[:len(s.messages):len(s.messages)], m), append(s.Messages, m)
}

func (r *Run) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// lastWords is how long the log may take for the lines with which a run ends, after its context has ended.
const lastWords = 10 * time.Second

// append appends a line, also when the context of the run has ended.
func (s *state) append(ctx context.Context, line stream.Line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
	}
	return s.Log.Append(ctx, line)
}
