package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/metering"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/usage"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a content store, which replicas share, and a model that follows the words of messages.
type world struct {
	*testing.T
	db      *store.Store
	account *v1alpha1.Account
	agent   *agents.Agent

	// tokens are the limits of replicas, and clock is their clock; that of the system if it is nil.
	tokens metering.Limits
	clock  clock.WithTickerAndDelayedExecution

	mu  sync.Mutex
	now time.Duration
	// events are those of the audit log: before or after, and the id of the call.
	events []string
	// asked are the conversations that the model has received.
	asked []*model.Request
	// begun has the questions on which the model waits; more lets it go on.
	begun, ended chan string
	more         chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		T: t, db: contenttest.Open(t, storetest.SQLiteURL(t), chat.Owner, usage.Owner), begun: make(chan string, 100), ended: make(chan string, 100), more: make(chan struct{}),
		account: &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a1"}, Spec: v1alpha1.AccountSpec{Namespace: "acme"}},
	}
	w.agent = &agents.Agent{
		ID: 7, Agent: &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "analyst"}}, Endpoint: &v1alpha1.ModelEndpoint{Spec: v1alpha1.ModelEndpointSpec{
			Price: &v1alpha1.ModelPrice{Currency: "USD", InputPerMillionTokens: "1", OutputPerMillionTokens: "2"},
		}},
		Deployment: &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", UID: "d1"}},
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// replica is a process.
type replica struct {
	*Service
	world *world
	web   *httptest.Server
	// killed makes each write of the log fail from a number of them on; 0 for never. writes counts them.
	mu     sync.Mutex
	killed int
	writes int
	// fails is the number of the only write that fails; 0 for none.
	fails int
	// down makes writes of the log fail as they do while the database is not available.
	down bool
}

// start starts a replica. The log fails from the write with the number kill on, as if the process had been killed.
func (w *world) start(kill int) *replica {
	w.Helper()
	r := &replica{world: w, killed: kill}
	threads := &chat.Threads{
		DB: &mortal{w.db, r}, Now: func() time.Time { return time.Now().Add(w.later()) },
		Record: func(context.Context, *store.Tx, audit.Event) error { return nil },
	}
	meter := &metering.Meter{Usage: &usage.Usage{DB: w.db}, Limits: w.tokens, Clock: clock.RealClock{}, Metrics: metering.NewMetrics()}
	r.Service = New(Options{Agents: w, Threads: threads, Retention: DefaultRetention, Meter: meter, Clock: w.clock})
	r.runs.open()
	r.web = httptest.NewServer(http.HandlerFunc(r.serve))
	w.Cleanup(func() {
		r.stop()
		r.web.Close()
	})
	return r
}

// later is how far the clock of the store was advanced.
func (w *world) later() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// expire lets the leases of killed replicas expire.
func (w *world) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now += 2 * chat.Lease
}

// mortal is the store of a replica that may be killed.
type mortal struct {
	*store.Store
	of *replica
}

func (m *mortal) alive() error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if m.of.down {
		return store.ErrUnavailable
	}
	if m.of.writes++; m.of.killed > 0 && m.of.writes >= m.of.killed {
		return chat.ErrLost // it is not tried again
	}
	if m.of.writes == m.of.fails {
		return chat.ErrLost
	}
	return nil
}

func (m *mortal) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.Tx(ctx, work)
}

func (m *mortal) TxAsync(ctx context.Context, work func(tx *store.Tx) error) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.TxAsync(ctx, work)
}

// serve answers requests whose query has input, chat, message and user.
func (r *replica) serve(w http.ResponseWriter, request *http.Request) {
	q := request.URL.Query()
	scope := &rest.Scope{Account: r.world.account, Principal: &auth.Principal{Kind: auth.KindAPIKey, ID: "key"}}
	ctx, asker := scope.With(request.Context()), &agents.Asker{Owner: "External:" + q.Get("user")}
	var answer *Answer
	var err error
	switch {
	case q.Get("abort") != "":
		err = r.Abort(ctx, r.world.agent, asker, q.Get("chat"))
	case q.Get("input") == "":
		answer, err = r.Open(ctx, r.world.agent, asker, q.Get("chat"))
	default:
		answer, err = r.Start(ctx, Message{Agent: r.world.agent, Asker: asker, ChatID: q.Get("chat"), ID: q.Get("message"), Text: q.Get("input")})
	}
	var p *rest.Problem
	switch {
	case errors.As(err, &p):
		http.Error(w, p.Message, p.GetStatus())
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case answer == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		answer.Serve(ctx, w)
	}
}

// get sends a request. The response is read by the caller.
func (r *replica) get(ctx context.Context, values ...string) *http.Response {
	r.world.Helper()
	q := url.Values{"user": {"u1"}}
	for i := 0; i+1 < len(values); i += 2 {
		q.Set(values[i], values[i+1])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.web.URL+"/?"+q.Encode(), nil)
	r.world.must(err)
	response, err := http.DefaultClient.Do(request)
	r.world.must(err)
	return response
}

// text sends a request and returns the status and the body.
func (r *replica) text(values ...string) (int, string) {
	r.world.Helper()
	response := r.get(r.world.Context(), values...)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	r.world.must(err)
	return response.StatusCode, string(body)
}

// lines are those of a stream, without empty ones.
func (w *world) lines(body string) (out []*stream.Line) {
	w.Helper()
	for _, text := range strings.Split(body, "\n") {
		if text == "" {
			continue
		}
		l, err := stream.Decode([]byte(text))
		if err != nil {
			w.Fatalf("%v in %s", err, body)
		}
		out = append(out, l)
	}
	return out
}

// until reads lines until one contains a text.
func until(t *testing.T, from *bufio.Reader, text string) string {
	t.Helper()
	all := ""
	for {
		line, err := from.ReadString('\n')
		if all += line; err != nil {
			t.Fatalf("%v; there is no %q in %s", err, text, all)
		}
		if strings.Contains(line, text) {
			return all
		}
	}
}

// Find implements Agents.
func (w *world) Find(context.Context, int64) (*agents.Agent, error) { return w.agent, nil }

// Asker implements Agents.
func (w *world) Asker(context.Context, *agents.Agent, *agents.Session) (*agents.Asker, error) {
	return nil, nil
}

// Prepare implements Agents.
func (w *world) Prepare(context.Context, agents.Question) (*agent.Run, error) {
	return &agent.Run{
		Model: (*script)(w), Audit: (*recorder)(w), NewID: uuid.NewString, Fence: agent.FenceOf("MARK"),
		Limits: agent.Limits{Turns: 5, Calls: 5, Parallel: 2, Tokens: 1e6, Answer: 1000, Rows: 100, Time: time.Minute, Context: 1 << 20},
		Tools: []agent.Tool{{Tool: model.Tool{Name: "count"}, Run: func(context.Context, agent.Input) (*agent.Result, error) {
			return &agent.Result{Wire: json.RawMessage(`{"n":12}`), Rows: 1}, nil
		}}},
	}, nil
}

// recorder is the audit log.
type recorder world

// Before implements agent.Audit.
func (r *recorder) Before(_ context.Context, c agent.Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, "before "+c.ID)
	return nil
}

// After implements agent.Audit.
func (r *recorder) After(_ context.Context, c agent.Call, _ agent.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, "after "+c.ID)
	return nil
}

// script is the model. It answers the last question of the user: "count" with a call and its result, "wait" after a part of the
// answer, "fail" with an error, and others with themselves.
type script world

// Stream implements model.Model.
func (s *script) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	s.mu.Lock()
	s.asked = append(s.asked, in)
	s.mu.Unlock()
	last := in.Messages[len(in.Messages)-1]
	usage := &model.Usage{Input: 10, Output: 5}
	return func(yield func(model.Event, error) bool) {
		say := func(texts ...string) bool {
			for _, text := range texts {
				if !yield(model.Event{Text: text}, nil) {
					return false
				}
			}
			return true
		}
		switch {
		case last.Text == "count":
			if say("I ", "count.") {
				yield(model.Event{ToolCall: &model.ToolCall{ID: "c1", Name: "count", Input: json.RawMessage("{}")}}, nil)
				yield(model.Event{Stop: model.StopTools, Usage: usage}, nil)
			}
			return
		case len(last.Results) > 0:
			if !say("There are ", "twelve.") {
				return
			}
		case last.Text == "fail":
			yield(model.Event{}, &model.Error{Kind: model.KeyRejected, Message: "the key is not accepted"})
			return
		case strings.HasPrefix(last.Text, "wait"):
			if !say("One, ") {
				return
			}
			s.begun <- last.Text
			select {
			case <-s.more:
			case <-ctx.Done():
				s.ended <- last.Text
				yield(model.Event{}, context.Cause(ctx))
				return
			}
			if !say("two, ", "three.") {
				return
			}
		default:
			if !say(strings.SplitAfter("You said "+last.Text, " ")...) {
				return
			}
		}
		yield(model.Event{Stop: model.StopEnd, Usage: usage}, nil)
	}
}

// stored returns the lines of a thread.
func (w *world) stored(r *replica, chatID string) (out []chat.Line) {
	w.Helper()
	thread, err := r.Threads.Find(w.Context(), content.Scope{Account: store.Account{UID: "a1"}, Deployment: store.Deployment{UID: "d1"}}, 7, chatID, "External:u1")
	if errors.Is(err, chat.ErrUnknown) {
		return nil
	}
	w.must(err)
	out, err = r.Threads.Lines(w.Context(), "a1", thread.ID, 0, 1000)
	w.must(err)
	for i := range out {
		if out[i].Sort != int64(i+1) {
			w.Errorf("line %d has the sort %d", i+1, out[i].Sort)
		}
	}
	return out
}

func messageID(n int) string { return fmt.Sprintf("%013d-message", n) }
