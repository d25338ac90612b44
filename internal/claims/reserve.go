package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// ReserveTimeout is how long Reserve waits for a claim in flight before it takes it over.
// Another replica may have created the claim and be about to create its object. If it was
// killed, the name must not stay blocked; a slow response is better than a wrong one.
const ReserveTimeout = 5 * time.Second

const (
	// minPollInterval and maxPollInterval bound the interval of reads of a claim in flight.
	// Usually its holder exists within milliseconds.
	minPollInterval = 20 * time.Millisecond
	maxPollInterval = 400 * time.Millisecond
	// maxAttempts bounds the retries of Reserve after conflicts.
	maxAttempts = 10
)

// errChanged means that another client has changed a claim since it was read.
var errChanged = errors.New("the claim has changed")

// Reserve claims a value for the object name before that object is created or gets the value.
// It returns the name of the holder if that is another object, and an empty name if the value
// is reserved. Without a conflict it costs one create.
//
// A caller that has not written the object ReserveTimeout/2 after Reserve must call Confirm
// after the write, and undo the write if the value is no longer reserved. A caller that does
// not write the object must call Release. ErrInFlight means that there were too many conflicts.
//
// All reads bypass the cache: `quoin apiserver` need not cache claims, and the client need
// not track writes that are never read.
func (a Attribute[T]) Reserve(ctx context.Context, c *kube.Client, namespace, name, value string) (string, error) {
	key := client.ObjectKey{Namespace: namespace, Name: a.Name(value)}
	for range maxAttempts {
		holder, err := a.reserve(ctx, c, key, name)
		switch {
		case err == nil:
			return holder, nil
		case !isConflict(err):
			return "", fmt.Errorf("reserve %s: %w", a.id(), err)
		}
	}
	return "", fmt.Errorf("reserve %s: %w", a.id(), ErrInFlight)
}

// isConflict reports whether another client has created, changed or deleted the claim.
func isConflict(err error) bool {
	return errors.Is(err, errChanged) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

func (a Attribute[T]) reserve(ctx context.Context, c *kube.Client, key client.ObjectKey, name string) (string, error) {
	err := c.Client.Create(ctx, a.claim(key, name))
	if !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	claim := &v1alpha1.Claim{}
	if err := c.Live().Get(ctx, key, claim); err != nil {
		return "", err
	}
	held, err := a.holds(ctx, c.Live(), claim)
	own := claim.Spec.Holder.Name == name
	if err == nil && !held && !own && a.inFlight(claim) {
		held, err = a.await(ctx, c, claim)
	}
	switch {
	case err != nil:
		return "", err
	case held && own:
		return "", nil
	case held:
		return claim.Spec.Holder.Name, nil
	}
	// The caller's own claim is replaced too, so that waiting callers and the sweep see a new one.
	return a.takeOver(ctx, c, claim, name)
}

// await polls until the holder of a claim has the value, the claim changes, or ReserveTimeout
// expires.
func (a Attribute[T]) await(ctx context.Context, c *kube.Client, claim *v1alpha1.Claim) (held bool, err error) {
	clk := a.clock()
	deadline := clk.Now().Add(ReserveTimeout)
	for interval := minPollInterval; clk.Now().Before(deadline); interval = min(2*interval, maxPollInterval) {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-clk.After(interval):
		}
		current := &v1alpha1.Claim{}
		if err := c.Live().Get(ctx, client.ObjectKeyFromObject(claim), current); err != nil {
			return false, err
		}
		if current.UID != claim.UID || current.ResourceVersion != claim.ResourceVersion {
			return false, errChanged
		}
		if held, err := a.holds(ctx, c.Live(), claim); held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// takeOver replaces an orphaned claim. The new claim is created instead of updated, because
// its age determines whether it may be in flight.
func (a Attribute[T]) takeOver(ctx context.Context, c *kube.Client, old *v1alpha1.Claim, name string) (string, error) {
	if err := remove(ctx, c.Client, old); err != nil {
		return "", err
	}
	claim := a.claim(client.ObjectKeyFromObject(old), name)
	if err := c.Client.Create(ctx, claim); err != nil {
		return "", err
	}
	previous := old.Spec.Holder
	if previous.Name == name {
		return "", nil
	}
	// The previous holder may have been written after the last read, and confirmed just before
	// its claim was deleted. Then it keeps the value. From here on, Confirm returns false for it.
	held, err := a.holds(ctx, c.Live(), old)
	if err != nil || !held {
		return "", err
	}
	claim.Spec.Holder = previous
	claim.OwnerReferences = old.OwnerReferences
	return previous.Name, c.Client.Update(ctx, claim)
}

// Confirm reports whether the object name still holds the claim on a value. A write that took
// long is valid only if it does; see Reserve.
func (a Attribute[T]) Confirm(ctx context.Context, c *kube.Client, namespace, name, value string) (bool, error) {
	claim := &v1alpha1.Claim{}
	err := c.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: a.Name(value)}, claim)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("confirm %s: %w", a.id(), err)
	}
	return claim.Spec.Holder.Name == name, nil
}

// Release deletes the claim of the object name on a value that the object did not get or no
// longer has. A claim of another object is kept, and so is one whose holder has the value:
// another request may have assigned it to the same object.
func (a Attribute[T]) Release(ctx context.Context, c *kube.Client, namespace, name, value string) error {
	claim := &v1alpha1.Claim{}
	err := c.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: a.Name(value)}, claim)
	if err == nil && claim.Spec.Holder.Name == name {
		var held bool
		if held, err = a.holds(ctx, c.Live(), claim); err == nil && !held {
			err = remove(ctx, c.Client, claim)
		}
	}
	if err != nil && !isConflict(err) {
		return fmt.Errorf("release %s: %w", a.id(), err)
	}
	return nil
}
