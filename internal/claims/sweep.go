package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

const (
	// firstSweep is when the first sweep takes place after the start: claims that were in
	// flight when the last leader ended are old by then.
	firstSweep = time.Minute
	// sweepPause is the time between two sweeps.
	sweepPause = 5 * time.Minute
)

// Kind is an Attribute of objects of any kind.
type Kind interface {
	id() string
	holds(ctx context.Context, c client.Reader, claim *v1alpha1.Claim) (bool, error)
}

// Sweep removes claims without UID that nobody holds: their holders were deleted by hand, or
// the front end died between its claim and its object. Claims with UID go by owner reference.
type Sweep struct {
	client *kube.Client
	clock  clock.Clock
	kinds  map[string]Kind
}

// NewSweep returns a sweep of the claims on some attributes; others are left alone.
func NewSweep(c *kube.Client, clk clock.Clock, attributes ...Kind) *Sweep {
	s := &Sweep{client: c, clock: clk, kinds: map[string]Kind{}}
	for _, a := range attributes {
		s.kinds[a.id()] = a
	}
	return s
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: one is enough.
func (s *Sweep) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it sweeps now and then until the context ends.
func (s *Sweep) Start(ctx context.Context) error {
	for pause := firstSweep; ; pause = sweepPause {
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(pause):
		}
		if err := s.Once(ctx); err != nil {
			log.FromContext(ctx).Info("Claims that nobody holds are still there, for the next sweep", "cause", err.Error())
		}
	}
}

// Once looks at all claims. One that cannot be removed does not keep the others.
func (s *Sweep) Once(ctx context.Context) error {
	list := &v1alpha1.ClaimList{}
	if err := s.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	var failed []error
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Spec.Holder.UID != "" || s.clock.Since(claim.CreationTimestamp.Time) <= youth {
			continue
		}
		if err := s.sweep(ctx, claim); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("sweep claim %q: %w", client.ObjectKeyFromObject(claim), err))
		}
	}
	return errors.Join(failed...)
}

// sweep removes a claim whose holder does not have the value, neither in the cache, where the
// question costs nothing, nor really.
func (s *Sweep) sweep(ctx context.Context, claim *v1alpha1.Claim) error {
	kind, known := s.kinds[claim.Spec.Attribute]
	if !known {
		return nil
	}
	for _, reader := range []client.Reader{s.client.Client, s.client.Live()} {
		if held, err := kind.holds(ctx, reader, claim); held || err != nil {
			return err
		}
	}
	return remove(ctx, s.client, claim)
}
