package directory

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/fold"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers;scimgroups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=get;create;update;delete

// createResource creates the claim on the unique value of a new resource, and then its object.
func (c *collection[T, S]) createResource(v *view, d schema.Document) (*schema.Resource, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	o := c.unique.New()
	o.SetNamespace(v.namespace)
	o.SetName(id)
	editing := v.forEditing()
	defer editing.members.End()
	if err := c.writeSpec(editing, o, d); err != nil {
		return nil, err
	}
	if err := c.checkUnique(v, c.unique.Value(o)); err != nil {
		return nil, err
	}
	// Slow writes come before the reservation, which must not expire.
	if err := c.storeSeparately(editing, o, d); err != nil {
		return nil, err
	}
	r := c.reservation(v, id)
	if err := c.reserve(v, r, c.unique.Value(o)); err != nil {
		return nil, err
	}
	if c.setDefaults != nil {
		c.setDefaults(o)
	}
	w := c.d.tracker.Expect(c.id(v.namespace, id))
	defer w.Stop()
	if err := c.createObject(v, o, r); err != nil {
		return nil, err
	}
	if held, err := r.Confirm(v.ctx); !held || err != nil {
		c.undo(v, o)
		return nil, c.reservationLost(v.ctx, err, c.unique.Value(o))
	}
	editing.members.WaitForCache()
	_ = w.Version(v.ctx, cacheTimeout, o.GetResourceVersion()) // the write is done
	return c.response(v, o)
}

// newID returns a unique id. Ids increase with time, so that resources created within the same second
// are listed in the order of their creation.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("generate an id: %w", err)
	}
	return id.String(), nil
}

// isGenerated reports whether an id is a UUID, as those of newID. Others are names that administrators have chosen.
func isGenerated(id string) bool {
	_, err := uuid.Parse(id)
	return err == nil
}

// checkUnique returns a conflict if a cached resource has a unique value. It detects objects created
// with kubectl that have no claim yet, and in most cases avoids writing a claim in vain.
func (c *collection[T, S]) checkUnique(v *view, value string) error {
	for _, cached := range c.byUniqueValue.Find(v.namespace, fold.Case(value)) {
		live, err := c.live(v.ctx, v.namespace, cached.GetName())
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

// reservationLost returns the error after a reservation expired and could not be confirmed.
func (c *collection[T, S]) reservationLost(ctx context.Context, err error, value string) error {
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot confirm the claim on a name; the change was undone")
		return err
	}
	return c.conflict(value)
}

// createObject creates the object for which a unique value is reserved.
func (c *collection[T, S]) createObject(v *view, o T, r *claims.Reservation[T]) error {
	err := c.d.kube.Client.Create(v.ctx, o, client.FieldOwner(fieldowner.From(v.ctx)))
	if err == nil {
		return nil
	}
	if isRejection(err) {
		r.Release(v.ctx)
		return err
	}
	// The object may have been created although the response was lost. The claim is kept until the
	// controller finds out.
	ctx, cancel := cleanupContext(v.ctx)
	defer cancel()
	if c.d.kube.Live().Get(ctx, client.ObjectKeyFromObject(o), o) == nil {
		return nil
	}
	return err
}

// undo deletes an object whose unique value was lost.
func (c *collection[T, S]) undo(v *view, o T) {
	ctx, cancel := cleanupContext(v.ctx)
	defer cancel()
	if err := c.d.kube.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(err, "Cannot delete an object that lost its name; it stays with Ready=False, NameTaken", "kind", c.name, "name", o.GetName())
	}
}

// cleanupContext returns a context for cleanup that must happen even if the client has disconnected.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cacheTimeout)
}

// reservation returns a reservation of the unique value for an object, without a value.
func (c *collection[T, S]) reservation(v *view, id string) *claims.Reservation[T] {
	return c.unique.Reservation(c.d.kube, c.d.clock, v.namespace, id)
}

// reserve reserves a unique value. The error is a conflict if another object has it.
func (c *collection[T, S]) reserve(v *view, r *claims.Reservation[T], value string) error {
	holder, err := r.Reserve(v.ctx, value)
	if err == nil && holder != "" {
		return c.conflict(value)
	}
	return err
}

// errNoNamespace is the error for an account whose namespace does not exist.
var errNoNamespace = scimerror.New(http.StatusServiceUnavailable, "the account is not ready: its namespace does not exist or is being removed")
