package evaluations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a content store, which replicas share, and an agent whose model calls cubeSqlApi with the question. It implements Agents.
type world struct {
	*testing.T
	db        *store.Store
	agent     *agents.Agent
	questions []project.Question
	// begun receives the questions that begin with wait, which are answered when more receives.
	begun chan string
	more  chan struct{}

	mu sync.Mutex
	// revoked is the error of Check, and panics is true if Prepare panics.
	revoked error
	panics  bool
}

func newWorld(t *testing.T, questions ...string) *world {
	t.Helper()
	w := &world{T: t, db: contenttest.Open(t, storetest.SQLiteURL(t), evaluation.Owner), begun: make(chan string, 100), more: make(chan struct{})}
	meta := metav1.ObjectMeta{Namespace: "acme", Name: "analyst", UID: "d1"}
	w.agent = &agents.Agent{ID: 7, Agent: &v1alpha1.Agent{ObjectMeta: meta}, Deployment: &v1alpha1.Deployment{ObjectMeta: meta}, Endpoint: &v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "claude"}}}
	for i, q := range questions {
		w.questions = append(w.questions, project.Question{Name: fmt.Sprint("q", i+1), Question: q, SQL: q, Place: project.Place{Path: "agents/eval_questions.yml", Line: i + 1}})
	}
	return w
}

// request returns the context of a request.
func (w *world) request() context.Context {
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a1"}, Spec: v1alpha1.AccountSpec{Namespace: "acme"}}
	scope := &rest.Scope{Account: account, Deployment: w.agent.Deployment, Principal: &auth.Principal{Kind: auth.KindAPIKey, ID: "k1", Name: "key"}}
	return scope.With(context.Background()) // the work goes on after the request and after the test
}

// replica is a server, which ends with stop.
type replica struct {
	*Service
	stop func()
}

func (w *world) start() *replica {
	w.Helper()
	record := func(context.Context, *store.Tx, audit.Event) error { return nil }
	stored := &evaluation.Evaluations{DB: w.db, Record: record}
	r := &replica{Service: New(Options{Agents: w, Evaluations: stored, Orphans: stored, Retention: time.Hour})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, w.db) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(r.stop)
	w.eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.isOpen
	})
	return r
}

func (w *world) eventually(is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatal("it has not happened within a minute")
		}
	}
}

// begin starts an evaluation of all questions.
func (w *world) begin(r *replica, body StartBody) *evaluation.Evaluation {
	w.Helper()
	e, err := r.evaluate(w.request(), &body)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// ended waits for the end of an evaluation, and returns its state, failure and results.
func (w *world) ended(r *replica, id int64) string {
	w.Helper()
	var found *evaluation.Evaluation
	w.eventually(func() bool {
		var err error
		if found, err = r.find(w.request(), id); err != nil {
			w.Fatal(err)
		}
		return found.State != evaluation.Running
	})
	page, err := r.Evaluations.Results(w.Context(), rest.ScopeFrom(w.request()).Content(), id, 0, 1000)
	if err != nil {
		w.Fatal(err)
	}
	out := []string{string(found.State)}
	if found.Failure != "" {
		out = append(out, found.Failure)
	}
	for _, item := range page.Items {
		out = append(out, fmt.Sprintf("%d:%s", item.Number, item.Verdict))
	}
	return strings.Join(out, " ")
}

func (w *world) equal(got, want any) {
	w.Helper()
	if got != want {
		w.Errorf("got  %v\nwant %v", got, want)
	}
}

// Named implements Agents.
func (w *world) Named(context.Context, string) (*agents.Agent, error) { return w.agent, nil }

// Find implements Agents.
func (w *world) Find(context.Context, int64) (*agents.Agent, error) { return w.agent, nil }

// WithEndpoint implements Agents.
func (w *world) WithEndpoint(_ context.Context, a *agents.Agent, _ string) (*agents.Agent, error) {
	return a, nil
}

// Caller implements Agents.
func (w *world) Caller(context.Context) (*agents.Asker, error) {
	return &agents.Asker{Owner: "ApiKey:k1"}, nil
}

// Asker implements Agents.
func (w *world) Asker(context.Context, *agents.Agent, *agents.Session) (*agents.Asker, error) {
	return &agents.Asker{Owner: "ApiKey:k1"}, nil
}

// Configured implements Agents.
func (w *world) Configured(context.Context, *agents.Agent, string) (*project.Configured, string, error) {
	return &project.Configured{Questions: w.questions}, "abc", nil
}

// Check implements Agents.
func (w *world) Check(context.Context, *agents.Asker) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revoked
}

// Prepare implements Agents.
func (w *world) Prepare(_ context.Context, q agents.Question) (*agent.Run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.panics && q.Evaluation != 0 {
		panic("a defect")
	}
	var mu sync.Mutex
	ids := 0
	return &agent.Run{
		Model: (*asker)(w), Audit: unrecorded{},
		Limits: agent.Limits{Turns: 5, Calls: 5, Parallel: 2, Tokens: 1e6, Answer: 1000, Rows: 100, Time: time.Minute, Context: 1 << 20},
		NewID: func() string {
			mu.Lock()
			defer mu.Unlock()
			ids++
			return fmt.Sprint("m", ids)
		},
		Tools: []agent.Tool{{Tool: model.Tool{Name: semantic.SQLTool}, Run: func(_ context.Context, in agent.Input) (*agent.Result, error) {
			text := string(in.JSON)
			q.OnTable(&semantic.Table{SQL: text, Columns: []string{"n"}, Rows: [][]*string{{&text}}})
			return &agent.Result{Wire: json.RawMessage(`{}`)}, nil
		}}},
	}, nil
}

// unrecorded is the audit log.
type unrecorded struct{}

// Before implements agent.Audit.
func (unrecorded) Before(context.Context, agent.Call) error { return nil }

// After implements agent.Audit.
func (unrecorded) After(context.Context, agent.Call, agent.Outcome) error { return nil }

// asker is the model. A request and its answer take 500 tokens.
type asker world

// Stream implements model.Model.
func (a *asker) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		last := in.Messages[len(in.Messages)-1]
		usage := &model.Usage{Input: 400, Output: 100}
		if len(last.Results) > 0 {
			_ = yield(model.Event{Text: "Done."}, nil) && yield(model.Event{Stop: model.StopEnd, Usage: usage}, nil)
			return
		}
		if strings.HasPrefix(last.Text, "wait") {
			a.begun <- last.Text
			select {
			case <-a.more:
			case <-ctx.Done():
				yield(model.Event{}, context.Cause(ctx))
				return
			}
		}
		input, err := json.Marshal(map[string]string{"sqlQuery": last.Text})
		if err != nil {
			yield(model.Event{}, errors.New("not JSON"))
			return
		}
		call := &model.ToolCall{ID: "c1", Name: semantic.SQLTool, Input: input}
		_ = yield(model.Event{ToolCall: call}, nil) && yield(model.Event{Stop: model.StopTools, Usage: usage}, nil)
	}
}
