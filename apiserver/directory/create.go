package directory

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fold"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers;scimgroups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=get;create;update;delete

// createResource makes the object of a new resource: first the claim on its unique value, then the object.
func (c *collection[T, S]) createResource(v *view, d schema.Document) (*schema.Resource, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	o := c.unique.New()
	o.SetNamespace(v.namespace)
	o.SetName(id)
	editing := v.forEditing()
	defer editing.end()
	if err := c.writeSpec(editing, o, d); err != nil {
		return nil, err
	}
	if err := c.taken(v, c.unique.Value(o)); err != nil {
		return nil, err
	}
	// First what takes long: a reserved value must not wait.
	if err := c.storeApart(editing, o, d); err != nil {
		return nil, err
	}
	r := c.reservation(v, id)
	if err := r.reserve(c.unique.Value(o)); err != nil {
		return nil, err
	}
	if c.complete != nil {
		c.complete(o)
	}
	w := c.d.seen.expect(c.name, v.namespace, id)
	defer w.end()
	if err := c.createObject(v, o, r); err != nil {
		return nil, err
	}
	if held, err := r.confirm(v.ctx); !held || err != nil {
		c.undo(v, o)
		return nil, c.lost(v.ctx, err, c.unique.Value(o))
	}
	editing.seen()
	w.version(v.ctx, o.GetResourceVersion())
	created := c.resource(v, o)
	return created, v.err
}

// newID is an id that nobody has had or will have. It grows with the time, so that of the
// resources made within a second, too, those made later are listed later.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// taken refuses a value that a resource has of which the cache knows: it may be one that kubectl
// has made, and whose claim is not made yet; and mostly it saves the writes.
func (c *collection[T, S]) taken(v *view, value string) error {
	for _, known := range indexed[T](c.informer, indexUnique, v.namespace, fold.Case(value)) {
		live, err := c.live(v.ctx, v.namespace, known.GetName())
		switch {
		case isNotFound(err):
		case err != nil:
			return err
		case c.unique.Name(c.unique.Value(live)) == c.unique.Name(value):
			return c.conflict(value)
		}
	}
	return nil
}

func (c *collection[T, S]) conflict(value string) error {
	return scimerror.Conflict("%s: %s belongs to another %s", c.uniqueName, scimerror.Quote(value), c.name)
}

// lost is the answer of who was too slow: somebody else has the value by now.
func (c *collection[T, S]) lost(ctx context.Context, err error, value string) error {
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot tell whose name it is; the change was undone")
		return err
	}
	return c.conflict(value)
}

// createObject creates the object for which a value is reserved.
func (c *collection[T, S]) createObject(v *view, o T, r *reservation[T, S]) error {
	err := c.d.kube.Client.Create(v.ctx, o)
	if err == nil {
		return nil
	}
	if isRefusal(err) {
		r.release(v.ctx)
		return err
	}
	// Nobody knows whether it was created: an answer may get lost. The claim stays: whoever wants
	// the value next waits for what becomes of it.
	ctx, cancel := afterwards(v.ctx)
	defer cancel()
	if known := c.d.kube.Live().Get(ctx, client.ObjectKeyFromObject(o), o); known == nil {
		return nil
	}
	return err
}

// undo deletes what was created in vain.
func (c *collection[T, S]) undo(v *view, o T) {
	ctx, cancel := afterwards(v.ctx)
	defer cancel()
	if err := c.d.kube.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(err, "Cannot delete what has lost its name; it stays as one with the name taken", "kind", c.name, "name", o.GetName())
	}
}

// afterwards is a context for what has to be done whether or not the caller still waits.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// reservation is of a unique value, for an object that is about to have it.
type reservation[T v1alpha1.Object, S any] struct {
	c         *collection[T, S]
	v         *view
	id, value string
	since     time.Time
}

func (c *collection[T, S]) reservation(v *view, id string) *reservation[T, S] {
	return &reservation[T, S]{c: c, v: v, id: id}
}

// reserve asks for a value. Another one that was reserved before is given back.
func (r *reservation[T, S]) reserve(value string) error {
	if r.value == value {
		return nil
	}
	r.release(r.v.ctx)
	r.since = r.c.d.clock.Now()
	holder, err := r.c.unique.Reserve(r.v.ctx, r.c.d.kube, r.v.namespace, r.id, value)
	switch {
	case err != nil:
		return err
	case holder != "":
		return r.c.conflict(value)
	}
	r.value = value
	return nil
}

// release gives back what is reserved. What fails is left to the sweep of claims.
func (r *reservation[T, S]) release(ctx context.Context) {
	if r.value == "" {
		return
	}
	r.c.releaseClaim(ctx, r.v.namespace, r.id, r.value)
	r.value = ""
}

// confirm tells whether the value is still the object's: who took long may have lost it.
func (r *reservation[T, S]) confirm(ctx context.Context) (bool, error) {
	if r.value == "" || r.c.d.clock.Since(r.since) < claims.ReserveTimeout/2 {
		return true, nil
	}
	return r.c.unique.Confirm(ctx, r.c.d.kube, r.v.namespace, r.id, r.value)
}

// releaseClaim gives a value back that an object has no more, or does not get.
func (c *collection[T, S]) releaseClaim(ctx context.Context, namespace, id, value string) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if err := c.unique.Release(ctx, c.d.kube, namespace, id, value); err != nil {
		log.FromContext(ctx).Error(err, "Cannot release a claim; the sweep does it later")
	}
}

// errMissing is what becomes of a namespace that is not there.
var errMissing = scimerror.New(http.StatusServiceUnavailable, "the account is not ready: its namespace does not exist or is being removed")
