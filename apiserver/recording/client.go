package recording

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
)

// Client records the changes that are made through it to the kinds that people and programs
// change. Status and all other kinds it passes on.
//
// A context without a Request is refused a change of such a kind: whoever comes to write one
// cannot forget to say for whom.
type Client struct{ client.Client }

// NewClient wraps a client.
func NewClient(c client.Client) *Client { return &Client{c} }

// changed is a patch that knows the object as it was: those of package edit.
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

// Update is not how the front end writes: a patch says what it changes.
func (c *Client) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if s := c.subject(o); s != nil {
		return errors.New("recording: objects are patched, not updated")
	}
	return c.Client.Update(ctx, o, opts...)
}

// DeleteAllOf is not how the front end deletes: each object is an event of its own.
func (c *Client) DeleteAllOf(ctx context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	if s := c.subject(o); s != nil {
		return errors.New("recording: objects are deleted one by one")
	}
	return c.Client.DeleteAllOf(ctx, o, opts...)
}

// subject of an object; nil for one whose changes are not recorded.
func (c *Client) subject(o client.Object) *subject {
	gvk, err := apiutil.GVKForObject(o, c.Scheme())
	if err != nil || gvk.Group != v1alpha1.GroupVersion.Group {
		return nil
	}
	return subjectOf(gvk.Kind)
}

func subjectOf(kind string) *subject {
	i := slices.IndexFunc(subjects, func(s subject) bool { return s.kind == kind })
	if i < 0 {
		return nil
	}
	return &subjects[i]
}

// record makes a change between two halves of its event.
func (c *Client) record(ctx context.Context, v verb, o, before, after client.Object, write func() error) error {
	s := c.subject(o)
	if s == nil {
		return write()
	}
	r := requestOf(ctx)
	switch {
	case r == nil:
		return errUnrecorded
	case r.who == nil:
		return write()
	}
	changes, err := s.difference(before, after)
	if err != nil {
		return err
	}
	// The write may change the object: what its event says was there before.
	t := target{v, s.kind, o.GetName()}
	attempt, err := r.begin(ctx, t, c.event(ctx, s, v, o, r.who.Source), changes)
	if err != nil {
		return err
	}
	err = write()
	details := audit.Details{Object: objectOf(s, o)}
	switch {
	case err == nil:
		r.end(ctx, t, attempt, audit.Succeeded, details)
	case apierrors.IsConflict(err) && v == update:
		// It is tried again, or settle ends it.
	case isRefusal(err):
		details.Reason = string(apierrors.ReasonForError(err))
		r.end(ctx, t, attempt, audit.Failed, details)
	default:
		// Nobody knows whether it was done: an answer may get lost. It stays an attempt.
		r.forget(t)
	}
	return err
}

// forget leaves an event as an attempt.
func (r *Request) forget(t target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, t)
}

// isRefusal tells whether the API server has said no: then nothing was written, and nothing will be.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) ||
		apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// event of a change to an object.
func (c *Client) event(ctx context.Context, s *subject, v verb, o client.Object, source audit.Source) audit.Event {
	e := audit.Event{Name: s.names[v], Object: objectOf(s, o)}
	if source == audit.SourceSCIM && s.viaSCIM[v] != "" {
		e.Name = s.viaSCIM[v]
	}
	if s.deployment != nil {
		e.Deployment = deploymentOf(ctx, c.Client, o, s.deployment(o))
	}
	return e
}

func objectOf(s *subject, o client.Object) audit.Object {
	return audit.Object{Kind: s.kind, Namespace: o.GetNamespace(), Name: o.GetName(), ID: o.GetLabels()[v1alpha1.LabelID]}
}

// deploymentOf is what people call the Deployment that an object belongs to; its object's name
// while it is not known yet.
func deploymentOf(ctx context.Context, reader client.Reader, o client.Object, name string) audit.Deployment {
	d, ok := o.(*v1alpha1.Deployment)
	if !ok {
		d = &v1alpha1.Deployment{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, d); err != nil {
			return audit.Deployment{Name: name}
		}
	}
	shown := audit.Deployment{ID: d.Labels[v1alpha1.LabelID], Name: d.Spec.DisplayName}
	if shown.Name == "" {
		shown.Name = d.Name
	}
	return shown
}

// difference is what differs between the specs of two objects, of which one may be nil.
func (s *subject) difference(before, after client.Object) (map[string]any, error) {
	x, err := specOf(before)
	if err != nil {
		return nil, err
	}
	y, err := specOf(after)
	if err != nil {
		return nil, err
	}
	data, err := audit.Diff(x, y)
	if err != nil {
		return nil, err
	}
	changes := map[string]any{}
	if len(data) > 0 {
		err = json.Unmarshal(data, &changes)
	}
	delete(changes, s.hidden)
	return changes, err
}

// specOf is the spec of an object, below its name; nil of none.
func specOf(o client.Object) (any, error) {
	if o == nil {
		return nil, nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var whole struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	return map[string]any{"spec": whole.Spec}, nil
}
