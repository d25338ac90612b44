package recording

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
)

// Client records changes of recorded kinds. It does not record changes of status and of other kinds.
//
// A change of a recorded kind fails if the context has no Request, so that new code cannot omit it.
type Client struct{ client.Client }

// NewClient wraps a client.
func NewClient(c client.Client) *Client { return &Client{c} }

// changed is a patch with the object before the change, as those of package edit.
type changed interface{ Before() client.Object }

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.record(ctx, create, o, nil, o, func() error { return c.Client.Create(ctx, o, opts...) })
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.record(ctx, remove, o, o, nil, func() error { return c.Client.Delete(ctx, o, opts...) })
}

// Patch implements client.Client.
func (c *Client) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	before := o
	if known, ok := patch.(changed); ok {
		before = known.Before()
	}
	return c.record(ctx, update, o, before, o, func() error { return c.Client.Patch(ctx, o, patch, opts...) })
}

// Update fails for recorded kinds: they must be patched.
func (c *Client) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if c.recordedKind(o) != nil {
		return errors.New("recording: objects are patched, not updated")
	}
	return c.Client.Update(ctx, o, opts...)
}

// DeleteAllOf fails for recorded kinds: each deletion is an event.
func (c *Client) DeleteAllOf(ctx context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	if c.recordedKind(o) != nil {
		return errors.New("recording: objects are deleted one by one")
	}
	return c.Client.DeleteAllOf(ctx, o, opts...)
}

// recordedKind returns the kind of an object, nil if its changes are not recorded.
func (c *Client) recordedKind(o client.Object) *recordedKind {
	gvk, err := apiutil.GVKForObject(o, c.Scheme())
	if err != nil || gvk.Group != v1alpha1.GroupVersion.Group {
		return nil
	}
	k := recordedKindOf(gvk.Kind)
	if k == nil || k.Derived {
		return nil
	}
	return k
}

// record stores the event of a change, makes the change and stores its outcome.
func (c *Client) record(ctx context.Context, v verb, o, before, after client.Object, write func() error) error {
	k := c.recordedKind(o)
	if k == nil {
		return write()
	}
	r := requestOf(ctx)
	switch {
	case r == nil:
		return errUnrecorded
	case !r.enabled && !enables(after):
		return write()
	}
	documents, err := documentsOf(before, after)
	if err != nil {
		return err
	}
	changes, err := k.difference(documents)
	if err != nil {
		return err
	}
	if isMark(documents, changes) {
		return write()
	}
	for _, field := range k.Unrecorded {
		delete(changes, field)
	}
	// The write may modify the object: the event is derived before it.
	t := target{v, k.Name(), o.GetName()}
	created := target{create, k.Name(), o.GetName()}
	if creation := r.creation(created); v == remove && creation != nil {
		return r.undo(ctx, created, creation, write)
	}
	attempt, err := r.begin(ctx, t, k.event(ctx, c.Client, v, r.who.Source, documents), changes)
	if err != nil {
		return err
	}
	err = write()
	details := audit.Details{Object: k.object(o)}
	switch {
	case err == nil && v == create && k.Numbered:
		r.made(t) // Identified or settle stores the outcome
	case err == nil:
		r.end(ctx, t, attempt, audit.Succeeded, details)
	case apierrors.IsConflict(err) && v != create:
		// The caller retries, or settle stores the outcome.
	case Refused(err):
		details.Reason = string(apierrors.ReasonForError(err))
		r.end(ctx, t, attempt, audit.Failed, details)
	default:
		// Whether the change was made is unknown: the response may be lost. The event stays attempted.
		r.forget(t)
	}
	return err
}

// enables reports whether a change enables an audit log: after is an account with an enabled one.
func enables(after client.Object) bool {
	account, ok := after.(*v1alpha1.Account)
	return ok && account != nil && IsOn(account)
}

// made marks a change as made.
func (r *Request) made(t target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change := r.open[t]
	change.made = true
	r.open[t] = change
}

// forget leaves an event attempted.
func (r *Request) forget(t target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, t)
}

// Refused reports whether an error means that a change was not made: the Kubernetes API server rejected
// it, or its event could not be stored. After other errors, such as a lost response, it may have been
// made.
func Refused(err error) bool {
	return errors.Is(err, audit.ErrUnavailable) ||
		apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) ||
		apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}
