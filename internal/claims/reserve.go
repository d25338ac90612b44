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

// ReserveTimeout is how long a claim may be in flight before Reserve takes it over. Another replica
// may be between its claim and its object: killed there, the name must not stay blocked, and
// who asks for it gets a slow answer rather than a wrong one.
const ReserveTimeout = 5 * time.Second

const (
	// firstLook and lastLook are the shortest and the longest pause between two looks at a
	// claim in flight. Mostly its holder is there within milliseconds.
	firstLook = 20 * time.Millisecond
	lastLook  = 400 * time.Millisecond
	// tries bounds how often Reserve begins anew because another one was faster.
	tries = 10
)

// errChanged says that somebody else did something to a claim meanwhile.
var errChanged = errors.New("the claim has changed")

// Reserve claims a value for the object name before that object is created or given the
// value. It returns the name of the object that has the value when that is another one, and
// empty when the value is reserved: one create in the good case.
//
// Who has not finished writing the object ReserveTimeout/2 after calling Reserve must ask Confirm
// afterwards, and undo the write when the value was lost meanwhile. Who does not write it
// after all calls Release. ErrInFlight says that others were faster again and again.
//
// All reads go to the API server: the front end need not hold claims in its cache, and the
// client is not to remember writes that nobody will read.
func (a Attribute[T]) Reserve(ctx context.Context, c *kube.Client, namespace, name, value string) (string, error) {
	key := client.ObjectKey{Namespace: namespace, Name: a.Name(value)}
	for range tries {
		holder, err := a.reserve(ctx, c, key, name)
		switch {
		case err == nil:
			return holder, nil
		case !faster(err):
			return "", fmt.Errorf("reserve %s: %w", a.id(), err)
		}
	}
	return "", fmt.Errorf("reserve %s: %w", a.id(), ErrInFlight)
}

// faster tells whether somebody else has created, changed or removed the claim meanwhile.
func faster(err error) bool {
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
	mine := claim.Spec.Holder.Name == name
	if err == nil && !held && !mine && a.inFlight(claim) {
		held, err = a.await(ctx, c, claim)
	}
	switch {
	case err != nil:
		return "", err
	case held && mine:
		return "", nil
	case held:
		return claim.Spec.Holder.Name, nil
	}
	// One's own claim is made anew too: those who wait for what becomes of it see that
	// something does, and the sweep that it is young.
	return a.takeOver(ctx, c, claim, name)
}

// await waits until the holder of a claim has the value, or ReserveTimeout is over.
func (a Attribute[T]) await(ctx context.Context, c *kube.Client, claim *v1alpha1.Claim) (held bool, err error) {
	clk := a.clock()
	end := clk.Now().Add(ReserveTimeout)
	for pause := firstLook; clk.Now().Before(end); pause = min(2*pause, lastLook) {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-clk.After(pause):
		}
		now := &v1alpha1.Claim{}
		if err := c.Live().Get(ctx, client.ObjectKeyFromObject(claim), now); err != nil {
			return false, err
		}
		if now.UID != claim.UID || now.ResourceVersion != claim.ResourceVersion {
			return false, errChanged
		}
		if held, err := a.holds(ctx, c.Live(), claim); held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// takeOver puts a claim in the place of one that is orphaned. It is made anew, because its
// age tells others whether it may be in flight.
func (a Attribute[T]) takeOver(ctx context.Context, c *kube.Client, old *v1alpha1.Claim, name string) (string, error) {
	if err := remove(ctx, c.Client, old); err != nil {
		return "", err
	}
	claim := a.claim(client.ObjectKeyFromObject(old), name)
	if err := c.Client.Create(ctx, claim); err != nil {
		return "", err
	}
	former := old.Spec.Holder
	if former.Name == name {
		return "", nil
	}
	// The former holder may have been written after the last look at it, and confirmed just
	// before its claim went. Then it was first. From now on Confirm tells it that it is not.
	held, err := a.holds(ctx, c.Live(), old)
	if err != nil || !held {
		return "", err
	}
	claim.Spec.Holder = former
	claim.OwnerReferences = old.OwnerReferences
	return former.Name, c.Client.Update(ctx, claim)
}

// Confirm asks the API server whether the claim on a value is still that of the object name:
// a write that took long is only good when it is. See Reserve.
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

// Release gives a value back that the object name was to get and did not, or has no longer.
// A claim of another object stays, and so does one whose holder has the value: another
// request may have given it to the same object meanwhile.
func (a Attribute[T]) Release(ctx context.Context, c *kube.Client, namespace, name, value string) error {
	claim := &v1alpha1.Claim{}
	err := c.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: a.Name(value)}, claim)
	if err == nil && claim.Spec.Holder.Name == name {
		var held bool
		if held, err = a.holds(ctx, c.Live(), claim); err == nil && !held {
			err = remove(ctx, c.Client, claim)
		}
	}
	if err != nil && !faster(err) {
		return fmt.Errorf("release %s: %w", a.id(), err)
	}
	return nil
}
