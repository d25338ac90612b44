package recording

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
)

// Log stores events; *audit.Log implements it.
type Log interface {
	Begin(ctx context.Context, e audit.Event) (*audit.Attempt, error)
	Record(ctx context.Context, events ...audit.Event) error
	Identify(ctx context.Context, account string, id uuid.UUID, object audit.Object, deployment audit.Deployment) error
}

// IsOn reports whether the audit log of an account is enabled and its plan includes it.
func IsOn(account *v1alpha1.Account) bool {
	return account.Spec.AuditLog != nil && ptr.Deref(account.Spec.AuditLog.Enabled, false) && account.Spec.Plan == v1alpha1.PlanEnterprise
}

// Request is a request of a principal and its changes.
type Request struct {
	log Log
	// enabled reports whether the account's audit log is enabled. If not, only the change that enables
	// it is recorded.
	enabled bool
	// who has the fields that all events of the request share.
	who audit.Event

	mu sync.Mutex
	// open are changes without stored outcome: they are retried after a conflict, or are creations of
	// objects that have no number yet.
	open map[target]openChange
	// ends waits for outcomes that are being stored.
	ends sync.WaitGroup
	// failed is the error of outcomes that could not be stored.
	failed error
	// details are added to the changes of objects, by name.
	details map[string]map[string]any

	// gate is the response of the request.
	gate gate
}

// openChange is a change whose outcome is not stored.
type openChange struct {
	attempt *audit.Attempt
	// changes are those of the last retry, which reads the object again; nil before the first one.
	changes json.RawMessage
	// made reports whether the change was made.
	made bool
}

// target identifies a change.
type target struct {
	verb       verb
	kind, name string
}

// NewRequest returns a Request of a principal of an account. If log is nil, changes fail for accounts
// whose audit log is enabled.
func NewRequest(ctx context.Context, log Log, account *v1alpha1.Account, p *auth.Principal, source audit.Source) *Request {
	r := &Request{log: log, enabled: IsOn(account), who: audit.Event{
		Account: account.Name, Source: source, Actor: actor(p), RequestID: serving.RequestID(ctx),
	}}
	if address := serving.RemoteAddress(ctx); address.IsValid() {
		r.who.IP = address.String()
	}
	return r
}

// actors maps kinds of principals to kinds of actors.
var actors = map[auth.Kind]audit.ActorKind{
	auth.KindAPIKey:         audit.ActorKey,
	auth.KindUser:           audit.ActorUser,
	auth.KindServiceAccount: audit.ActorServiceAccount,
	auth.KindKubernetes:     audit.ActorKubernetes,
	auth.KindGitHook:        audit.ActorSystem,
	auth.KindDeployToken:    audit.ActorKey,
}

func actor(p *auth.Principal) audit.Actor {
	return audit.Actor{Kind: actors[p.Kind], ID: p.ID, Email: p.Email}
}

type requestKey struct{}

// With returns a context with the request.
func (r *Request) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

func requestOf(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Detail adds a detail to the event of the next change of an object, such as the members that are
// added to a group.
func Detail(ctx context.Context, object, name string, value any) {
	r := requestOf(ctx)
	if r == nil || !r.enabled {
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

// Named returns a context whose changes are recorded under another event name than that of the kind.
func Named(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// errUnrecorded is returned for a change without Request, which is a bug.
var errUnrecorded = errors.New("a change outside of a request cannot be recorded")

// record calls write with the completed event, unless the account's audit log is disabled.
func record(ctx context.Context, e audit.Event, write func(*Request, audit.Event) error) error {
	r := requestOf(ctx)
	switch {
	case r == nil:
		return errUnrecorded
	case !r.enabled:
		return nil
	}
	return write(r, r.event(e, cmp.Or(e.Outcome, audit.Succeeded)))
}

// Do records an action that changes no object, such as issuing a token.
func Do(ctx context.Context, e audit.Event) error {
	return record(ctx, e, func(r *Request, e audit.Event) error {
		if r.log == nil {
			return errNoLog
		}
		return r.log.Record(ctx, e)
	})
}

// Action is an action that changes no object, whose outcome is not stored yet.
type Action struct {
	attempt *audit.Attempt
	changes map[string]any
}

// Begin records that an action is attempted, before it is done. The action is nil if the audit log of the account is disabled. The
// context may be that of work that goes on after the request. changes are fields with their values.
func Begin(ctx context.Context, e audit.Event, changes map[string]any) (*Action, error) {
	var a *Action
	err := record(ctx, e, func(r *Request, e audit.Event) error {
		if r.log == nil {
			return errNoLog
		}
		var err error
		if e.Changes, err = encodeAfter(changes); err != nil {
			return err
		}
		attempt, err := r.log.Begin(ctx, e)
		if err == nil {
			a = &Action{attempt, changes}
		}
		return err
	})
	return a, err
}

// End records the outcome, with further fields.
func (a *Action) End(ctx context.Context, outcome audit.Outcome, reason string, changes map[string]any) error {
	all := maps.Clone(a.changes)
	maps.Copy(all, changes)
	text, err := encodeAfter(all)
	if err != nil {
		return err
	}
	return a.attempt.End(ctx, outcome, audit.Details{Reason: reason, Changes: text})
}

// encodeAfter returns fields with values in the form of changes.
func encodeAfter(fields map[string]any) (json.RawMessage, error) {
	changes := map[string]any{}
	for name, value := range fields {
		changes[name] = map[string]any{"after": value}
	}
	return encode(changes)
}

// RecordTx records a change of content in the transaction of the change: see audit.RecordTx.
func RecordTx(ctx context.Context, tx *store.Tx, e audit.Event) error {
	return record(ctx, e, func(_ *Request, e audit.Event) error { return audit.RecordTx(ctx, tx, e) })
}

// bestEffortTimeout is the timeout for best-effort events.
const bestEffortTimeout = 2 * time.Second

// Note records a best-effort event, such as a read: a failure is logged only.
func Note(ctx context.Context, e audit.Event) {
	bounded, cancel := context.WithTimeout(ctx, bestEffortTimeout)
	defer cancel()
	if err := Do(bounded, e); err != nil {
		log.FromContext(ctx).Error(err, "Failed to record a best-effort event in the audit log", "event", e.Name, "object", e.Object.Name)
	}
}

// errNoLog is returned for a change of an account with an enabled audit log if there is no database.
var errNoLog = fmt.Errorf("%w: the account's audit log is enabled, but quoin apiserver has no --database-url", audit.ErrUnavailable)

// event returns an event with the fields of the request.
func (r *Request) event(e audit.Event, outcome audit.Outcome) audit.Event {
	e.Account, e.Source, e.Actor, e.IP, e.RequestID, e.Outcome = r.who.Account, r.who.Source, r.who.Actor, r.who.IP, r.who.RequestID, outcome
	return e
}

// begin stores the event of a change as attempted. A retry reuses the event, whose outcome has the changes of the retry.
func (r *Request) begin(ctx context.Context, t target, e audit.Event, changes map[string]any) (*audit.Attempt, error) {
	if r.log == nil {
		return nil, errNoLog
	}
	r.mu.Lock()
	attempt := r.open[t].attempt
	maps.Copy(changes, r.details[t.name])
	delete(r.details, t.name)
	r.mu.Unlock()
	var err error
	if e.Changes, err = encode(changes); err != nil {
		return nil, err
	}
	if attempt != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		retried := r.open[t]
		retried.changes = e.Changes
		r.open[t] = retried
		return attempt, nil
	}
	if name, ok := ctx.Value(nameKey{}).(string); ok {
		e.Name = name
	}
	if attempt, err = r.log.Begin(ctx, r.event(e, audit.Attempted)); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[target]openChange{}
	}
	r.open[t] = openChange{attempt: attempt}
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

// end stores the outcome of a change in the background.
func (r *Request) end(ctx context.Context, t target, attempt *audit.Attempt, outcome audit.Outcome, d audit.Details) {
	r.mu.Lock()
	d.Changes = r.open[t].changes
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

// Identified stores the outcome of the creation of an object that has its number now.
func Identified(ctx context.Context, o client.Object) {
	r, kind := requestOf(ctx), reflect.TypeOf(o).Elem().Name()
	k := recordedKindOf(kind)
	if r == nil || k == nil {
		return
	}
	t := target{create, kind, o.GetName()}
	creation := r.creation(t)
	if creation == nil {
		return
	}
	details := audit.Details{Object: k.object(o)}
	if d, ok := o.(*v1alpha1.Deployment); ok {
		details.Deployment = DeploymentOf(d)
	}
	r.end(ctx, t, creation, audit.Succeeded, details)
}

// creation returns the creation of an object without number by this request, nil if there is none.
func (r *Request) creation(t target) *audit.Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.open[t]; c.made {
		return c.attempt
	}
	return nil
}

// undo deletes an object that the request has created and that lost its name to another one. The
// creation has failed; there is no event of the deletion.
func (r *Request) undo(ctx context.Context, t target, creation *audit.Attempt, write func() error) error {
	if err := write(); err != nil {
		return err
	}
	r.end(ctx, t, creation, audit.Failed, audit.Details{Reason: string(metav1.StatusReasonAlreadyExists)})
	return nil
}

// settle waits until all outcomes are stored. Changes that ended with a conflict have failed.
func (r *Request) settle(ctx context.Context) error {
	r.mu.Lock()
	open := maps.Clone(r.open)
	r.mu.Unlock()
	for t, change := range open {
		if change.made {
			r.end(ctx, t, change.attempt, audit.Succeeded, audit.Details{})
			continue
		}
		r.end(ctx, t, change.attempt, audit.Failed, audit.Details{Reason: "Conflict"})
	}
	r.ends.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
