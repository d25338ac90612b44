package claims

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/internal/kube"
)

// releaseTimeout limits TryRelease.
const releaseTimeout = 5 * time.Second

// Reservation is a value that is reserved for an object which is about to be written.
type Reservation[T client.Object] struct {
	attribute       Attribute[T]
	kube            *kube.Client
	clock           clock.PassiveClock
	namespace, name string
	// value is empty while none is reserved.
	value string
	since time.Time
}

// Reservation returns a reservation for an object, by its name, without a value.
func (a Attribute[T]) Reservation(c *kube.Client, clk clock.PassiveClock, namespace, name string) *Reservation[T] {
	return &Reservation[T]{attribute: a, kube: c, clock: clk, namespace: namespace, name: name}
}

// Reserve reserves a value as Attribute.Reserve does, and releases the value that was reserved before.
func (r *Reservation[T]) Reserve(ctx context.Context, value string) (holder string, err error) {
	if r.value == value {
		return "", nil
	}
	r.Release(ctx)
	r.since = r.clock.Now()
	holder, err = r.attribute.Reserve(ctx, r.kube, r.namespace, r.name, value)
	if err == nil && holder == "" {
		r.value = value
	}
	return holder, err
}

// Release releases the reserved value, best-effort.
func (r *Reservation[T]) Release(ctx context.Context) {
	if r.value != "" {
		r.attribute.TryRelease(ctx, r.kube, r.namespace, r.name, r.value)
		r.value = ""
	}
}

// Confirm reports after the write whether the object still holds the value: a slow request may have lost it. Then the write
// must be undone.
func (r *Reservation[T]) Confirm(ctx context.Context) (bool, error) {
	if r.value == "" || r.clock.Since(r.since) < ReserveTimeout/2 {
		return true, nil
	}
	return r.attribute.Confirm(ctx, r.kube, r.namespace, r.name, r.value)
}

// TryRelease releases a value as Release does, also if the client has disconnected. A failure is logged only: the controllers
// delete unused claims.
func (a Attribute[T]) TryRelease(ctx context.Context, c *kube.Client, namespace, name, value string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := a.Release(ctx, c, namespace, name, value); err != nil {
		log.FromContext(ctx).Error(err, "Cannot release a claim; the controller will delete it", "kind", a.Kind, "name", name)
	}
}
