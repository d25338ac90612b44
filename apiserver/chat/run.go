package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"runtime/debug"
	"strconv"

	"github.com/google/uuid"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/content/usage"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
)

// Message is a message to an agent.
type Message struct {
	Agent *agents.Agent
	Asker *agents.Asker
	// ChatID is empty for a new thread, and ID for a message without an idempotency key.
	ChatID, ID string
	Text       string
	Images     []model.Image
	// Data are documents that come with the message, such as what a dashboard shows. They are no instructions.
	Data []Document
	// Branch that is queried; empty for that of production.
	Branch string

	// caller is the principal of the request.
	caller string
}

// Document is data that a client sends. Source is a short name for the model.
type Document struct{ Source, Text string }

// Answer is a run, or the history of a thread.
type Answer struct {
	service *Service
	account string
	thread  *chat.Thread
	// run is nil for the history of a thread.
	run *chat.Run
	// begun is true if this request has begun the run.
	begun bool
}

// scopeOf returns the deployment of an agent as the content store knows it.
func scopeOf(ctx context.Context, a *agents.Agent) content.Scope {
	s := rest.ScopeFrom(ctx)
	return content.Scope{
		Account:    s.StoreAccount(),
		Deployment: store.Deployment{UID: string(a.Deployment.UID), Namespace: a.Deployment.Namespace, Name: a.Deployment.Name},
	}
}

// Start begins the run of a message, or finds it. The context is that of the request; the run goes on after it.
func (s *Service) Start(ctx context.Context, m Message) (*Answer, error) {
	scope := scopeOf(ctx, m.Agent)
	m.caller = rest.ScopeFrom(ctx).Caller()
	if m.ChatID != "" && m.ID != "" {
		if found, err := s.find(ctx, scope, &m); found != nil || err != nil {
			return found, err
		}
	}
	if m.ChatID == "" {
		m.ChatID = uuid.NewString()
	}
	if m.ID == "" {
		m.ID = s.newMessageID()
	}
	if err := m.Agent.Available(); err != nil {
		return nil, err
	}
	if !s.runs.admits() {
		return nil, errUnavailable
	}
	release, err := s.places.Acquire(ctx, m.Asker)
	if err != nil {
		return nil, err
	}
	ctx = m.Asker.With(ctx)
	answer, err := s.begin(ctx, scope, m, release)
	if err != nil || !answer.begun {
		release()
	}
	return answer, err
}

// errUnavailable is the answer while the content store is not open.
var errUnavailable = rest.Unavailable("chats are not available now: try again later").Later(retryAfter)

// newMessageID returns an id for a message without one, in the form of clients.
func (s *Service) newMessageID() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return fmt.Sprintf("%d%06d-message", s.Clock.Now().UnixMilli(), n)
}

// find returns the run of a message; nil if there is none.
func (s *Service) find(ctx context.Context, scope content.Scope, m *Message) (*Answer, error) {
	ctx = m.Asker.With(ctx)
	thread, err := s.Threads.Find(ctx, scope, m.Agent.ID, m.ChatID, m.Asker.Owner)
	if errors.Is(err, chat.ErrUnknown) {
		return nil, nil
	}
	if err != nil {
		return nil, problem(err)
	}
	run, err := s.Threads.OfMessage(ctx, scope.Account.UID, thread.ID, m.ID)
	if errors.Is(err, chat.ErrUnknown) {
		return nil, nil
	}
	return &Answer{service: s, account: scope.Account.UID, thread: thread, run: run}, problem(err)
}

// begin begins a run, unless there is one for the message.
func (s *Service) begin(ctx context.Context, scope content.Scope, m Message, release func()) (*Answer, error) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	prepared, err := s.Agents.Prepare(work, agents.Question{Agent: m.Agent, Asker: m.Asker, ChatID: m.ChatID, MessageID: m.ID, Branch: m.Branch})
	if err != nil {
		cancel(err)
		return nil, err
	}
	in := chat.Message{Agent: m.Agent.ID, ChatID: m.ChatID, Owner: m.Asker.Owner, ID: m.ID, Title: m.Text}
	thread, run, lease, err := s.Threads.Begin(ctx, scope, in, s.holder)
	if err != nil || lease == nil {
		cancel(err)
		return &Answer{service: s, account: scope.Account.UID, thread: thread, run: run}, problem(err)
	}
	l := newLive(s.Threads, s.Clock, lease, cancel)
	switch added, first := s.runs.add(scope.Account.UID, l); {
	case first:
		go s.keep() //nolint:gosec // it serves all runs, which go on after the request
	case !added:
		cancel(errStopping)
		return nil, errors.Join(errUnavailable, l.finish(ctx, chat.Failed, stream.Error(errStopping.Error())))
	}
	// The message is stored before it is acknowledged.
	if err := l.Append(ctx, stream.User(m.ID, m.Text)); err != nil {
		go s.abandon(work, l, err)
		return nil, problem(err)
	}
	go s.answer(work, l, prepared, m, run, release)
	return &Answer{service: s, account: scope.Account.UID, thread: thread, run: run, begun: true}, nil
}

// notStored is the error of a run whose message could not be stored.
const notStored = "the message could not be stored: send it again"

// abandon ends a run whose message could not be stored: otherwise the thread would have no other one until its lease expires.
func (s *Service) abandon(ctx context.Context, l *live, cause error) {
	defer s.runs.remove(l.lease.Account.UID, l)
	l.cancel(cause)
	if err := l.finish(ctx, chat.Failed, stream.Error(notStored)); err != nil && !errors.Is(err, chat.ErrLost) {
		crlog.FromContext(ctx).Error(err, "The end of a chat could not be stored; another replica ends it", "account", l.lease.Account.Name, "chat", l.lease.ChatID)
	}
	s.metrics.ran(chat.Failed, nil)
}

// answer runs until a message is answered, and ends the run.
func (s *Service) answer(ctx context.Context, l *live, prepared *agent.Run, m Message, run *chat.Run, release func()) {
	account := l.lease.Account.UID
	defer release()
	defer s.runs.remove(account, l)
	defer l.cancel(context.Canceled)
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	begun := s.Clock.Now()
	defer func() { s.metrics.duration.Observe(s.Clock.Since(begun).Seconds()) }()
	summary, err := s.work(ctx, l, prepared, m, run)
	state, last := outcome(ctx, err)
	if ended := l.finish(ctx, state, last...); ended != nil {
		crlog.FromContext(ctx).Error(ended, "The end of a chat could not be stored; another replica ends it", "account", l.lease.Account.Name, "chat", m.ChatID)
	}
	s.metrics.ran(state, summary)
}

// work answers the message.
func (s *Service) work(ctx context.Context, l *live, prepared *agent.Run, m Message, run *chat.Run) (summary *agent.Summary, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	before, err := s.history(ctx, l.lease.Account.UID, l.lease.Thread, run.After, run.After)
	if err != nil {
		return nil, err
	}
	prepared.Log, prepared.Audit = s.metrics.log(l, s.Clock.Now()), s.metrics.audit(prepared)
	prepared.Model = s.Meter.Model(prepared.Model, scopeOf(ctx, m.Agent), m.Agent.Endpoint.Spec.Price, usage.Run{
		Source: usage.Chat, ID: fmt.Sprintf("%d/%d", l.lease.Thread, l.lease.Run), StartedAt: s.Clock.Now(), Agent: m.Agent.ID,
		Endpoint: m.Agent.Endpoint.Name, Caller: m.caller, User: m.Asker.Owner,
	})
	text := m.Text
	for _, d := range m.Data {
		text += "\n\n" + prepared.Fence.Around(d.Source, d.Text)
	}
	question := model.Message{Role: model.User, Text: text, Images: m.Images}
	return prepared.Answer(ctx, append(agent.Conversation(before.All(), prepared.Fence), question))
}

// outcome returns the state in which a run ends, and its last line.
func outcome(ctx context.Context, err error) (chat.State, []stream.Line) {
	var limit *agent.LimitReached
	var provider *model.Error
	var rejected *rest.Problem
	switch {
	case err == nil:
		return chat.Done, nil
	case errors.Is(err, agent.ErrAborted):
		return chat.Aborted, nil
	case errors.As(err, &limit), errors.Is(err, errStopping):
		return chat.Failed, []stream.Line{stream.Error(err.Error())}
	case errors.As(err, &provider):
		return chat.Failed, []stream.Line{stream.Error("the model failed: " + rest.Clip(provider.Message))}
	case errors.As(err, &rejected):
		return chat.Failed, []stream.Line{stream.Error(rejected.Message)}
	}
	id := serving.RequestID(ctx)
	crlog.FromContext(ctx).Error(err, "An answer failed")
	return chat.Failed, []stream.Line{stream.Error("internal error; request id " + id)}
}

// Open returns the history of a thread, and the answer in progress if there is one.
func (s *Service) Open(ctx context.Context, a *agents.Agent, asker *agents.Asker, chatID string) (*Answer, error) {
	ctx = asker.With(ctx)
	scope := scopeOf(ctx, a)
	thread, err := s.Threads.Find(ctx, scope, a.ID, chatID, asker.Owner)
	if err != nil {
		return nil, problem(err)
	}
	return &Answer{service: s, account: scope.Account.UID, thread: thread}, nil
}

// Abort ends the run of a thread, if one is in progress.
func (s *Service) Abort(ctx context.Context, a *agents.Agent, asker *agents.Asker, chatID string) error {
	ctx = asker.With(ctx)
	scope := scopeOf(ctx, a)
	thread, err := s.Threads.Find(ctx, scope, a.ID, chatID, asker.Owner)
	if err != nil || thread.RunID == 0 {
		return problem(err)
	}
	if l := s.runs.find(scope.Account.UID, thread.RunID); l != nil {
		l.cancel(agent.ErrAborted)
		return nil
	}
	_, err = s.Threads.Abort(ctx, scope, a.ID, chatID, asker.Owner)
	return problem(err)
}

// problem returns the response of an error of the content store.
func problem(err error) error {
	switch {
	case errors.Is(err, chat.ErrUnknown):
		return rest.NotFound("chatId: %s", chat.ErrUnknown)
	case errors.Is(err, chat.ErrForeign):
		return rest.Forbidden("chatId: %s", chat.ErrForeign)
	case errors.Is(err, chat.ErrInProgress):
		return rest.Conflict("%s", chat.ErrInProgress)
	case errors.Is(err, chat.ErrFull):
		return rest.Conflict("%s", chat.ErrFull)
	}
	return err
}

// agentNumber returns the number in a path; 0 if it is none.
func agentNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
