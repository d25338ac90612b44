package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
)

// Log is where events go: an *audit.Log.
type Log interface {
	Begin(ctx context.Context, e audit.Event) (*audit.Attempt, error)
	Record(ctx context.Context, events ...audit.Event) error
}

// IsOn tells whether an account has its audit log switched on, and the plan for it.
func IsOn(account *v1alpha1.Account) bool {
	return account.Spec.AuditLog != nil && ptr.Deref(account.Spec.AuditLog.Enabled, false) && account.Spec.Plan == v1alpha1.PlanEnterprise
}

// Request is somebody's request with what it has changed so far.
type Request struct {
	log Log
	// who has what is the same in all of the request's events; nil when the account records none.
	who *audit.Event

	mu sync.Mutex
	// open are the changes whose outcome is not known yet: others were faster, and the same is
	// tried again.
	open map[target]*audit.Attempt
	// ends are outcomes that are being stored.
	ends sync.WaitGroup
	// failed is why an outcome could not be stored.
	failed error
	// details go with the changes of objects, by their names.
	details map[string]map[string]any
}

// target is what a change is made to.
type target struct {
	verb       verb
	kind, name string
}

// NewRequest begins to record the request of a principal of an account. A log that is nil stores
// nothing: then an account that wants its changes recorded cannot make any.
func NewRequest(ctx context.Context, log Log, account *v1alpha1.Account, p *auth.Principal, source audit.Source) *Request {
	r := &Request{log: log}
	if IsOn(account) {
		r.who = &audit.Event{
			Account: account.Name, Source: source, Actor: actor(p), RequestID: serving.RequestID(ctx),
		}
		if address := serving.RemoteAddress(ctx); address.IsValid() {
			r.who.IP = address.String()
		}
	}
	return r
}

// actors are audit's names for the kinds of principals.
var actors = map[auth.Kind]audit.ActorKind{
	auth.KindAPIKey:         audit.ActorKey,
	auth.KindUser:           audit.ActorUser,
	auth.KindServiceAccount: audit.ActorServiceAccount,
	auth.KindKubernetes:     audit.ActorKubernetes,
	auth.KindGitHook:        audit.ActorSystem,
}

func actor(p *auth.Principal) audit.Actor {
	return audit.Actor{Kind: actors[p.Kind], ID: p.ID, Email: p.Email}
}

type requestKey struct{}

// With makes the request known to all that is called with the context.
func (r *Request) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

func requestOf(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Detail says more of the change that is about to be made to an object than its spec does, such as
// which members a group gets.
func Detail(ctx context.Context, object, name string, value any) {
	r := requestOf(ctx)
	if r == nil || r.who == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.details == nil {
		r.details = map[string]map[string]any{}
	}
	if r.details[object] == nil {
		r.details[object] = map[string]any{}
	}
	r.details[object][name] = value
}

type nameKey struct{}

// Named gives the changes that are made with the context another name than their kind has.
func Named(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// errUnrecorded is a change that nobody has asked for: a fault in the program.
var errUnrecorded = errors.New("a change outside of a request cannot be recorded")

// Do records something that a request does and that changes no object, such as giving out a token.
func Do(ctx context.Context, e audit.Event) error {
	r := requestOf(ctx)
	switch {
	case r == nil:
		return errUnrecorded
	case r.who == nil:
		return nil
	case r.log == nil:
		return errNoLog
	}
	return r.log.Record(ctx, r.event(e, audit.Succeeded))
}

// RecordTx records a change of content, whose event is committed with it: see audit.RecordTx.
func RecordTx(ctx context.Context, tx *store.Tx, e audit.Event) error {
	r := requestOf(ctx)
	switch {
	case r == nil:
		return errUnrecorded
	case r.who == nil:
		return nil
	}
	return audit.RecordTx(ctx, tx, r.event(e, audit.Succeeded))
}

// longestRecording bounds how long somebody waits for the log whom it does not hold up.
const longestRecording = 2 * time.Second

// Note records as Do does what goes on without the log too, such as a read.
func Note(ctx context.Context, e audit.Event) {
	bounded, cancel := context.WithTimeout(ctx, longestRecording)
	defer cancel()
	if err := Do(bounded, e); err != nil {
		log.FromContext(ctx).Error(err, "Something is not in the audit log, and goes on without", "event", e.Name, "object", e.Object.Name)
	}
}

// errNoLog is a front end without a database that serves an account whose changes are to be
// recorded.
var errNoLog = fmt.Errorf("%w: the account's audit log is on, and quoin apiserver has no --database-url", audit.ErrUnavailable)

// event completes an event with who is behind it.
func (r *Request) event(e audit.Event, outcome audit.Outcome) audit.Event {
	e.Account, e.Source, e.Actor, e.IP, e.RequestID, e.Outcome = r.who.Account, r.who.Source, r.who.Actor, r.who.IP, r.who.RequestID, outcome
	return e
}

// begin stores that a change is about to be made. One that is tried again goes on with its event.
func (r *Request) begin(ctx context.Context, t target, e audit.Event, changes map[string]any) (*audit.Attempt, error) {
	if r.log == nil {
		return nil, errNoLog
	}
	r.mu.Lock()
	attempt := r.open[t]
	maps.Copy(changes, r.details[t.name])
	delete(r.details, t.name)
	r.mu.Unlock()
	if attempt != nil {
		return attempt, nil
	}
	if name, ok := ctx.Value(nameKey{}).(string); ok {
		e.Name = name
	}
	var err error
	if e.Changes, err = encode(changes); err != nil {
		return nil, err
	}
	if attempt, err = r.log.Begin(ctx, r.event(e, audit.Attempted)); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[target]*audit.Attempt{}
	}
	r.open[t] = attempt
	return attempt, nil
}

func encode(changes map[string]any) (json.RawMessage, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(changes)
	if err != nil {
		return nil, fmt.Errorf("encode changes: %w", err)
	}
	return data, nil
}

// end stores the outcome of a change, while the request goes on.
func (r *Request) end(ctx context.Context, t target, attempt *audit.Attempt, outcome audit.Outcome, d audit.Details) {
	r.mu.Lock()
	delete(r.open, t)
	r.mu.Unlock()
	r.ends.Go(func() {
		if err := attempt.End(ctx, outcome, d); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.failed = errors.Join(r.failed, err)
		}
	})
}

// settle waits until all outcomes are stored. What others were faster with every time has failed.
func (r *Request) settle(ctx context.Context) error {
	r.mu.Lock()
	open := r.open
	r.open = nil
	r.mu.Unlock()
	for t, attempt := range open {
		r.end(ctx, t, attempt, audit.Failed, audit.Details{Reason: "Conflict"})
	}
	r.ends.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
