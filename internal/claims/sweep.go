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
	// initialDelay is the time from the start to the first sweep: claims that were in flight when
	// the previous leader stopped have expired by then.
	initialDelay = time.Minute
	// sweepInterval is the time between two sweeps.
	sweepInterval = 5 * time.Minute
)

// Kind is Hosts, or an Attribute regardless of its type parameter.
type Kind interface {
	id() string
	// mayBeOrphaned reports whether nothing else deletes a claim when its holder is deleted.
	mayBeOrphaned(claim *v1alpha1.Claim) bool
	holds(ctx context.Context, c client.Reader, claim *v1alpha1.Claim) (bool, error)
}

// Sweep deletes orphaned claims without owner: their holders were deleted with kubectl, or
// `quoin apiserver` was killed between the creation of the claim and of the object. Claims
// with an owner are garbage-collected. It also bounds the number of records of deprovisioned users.
type Sweep struct {
	client *kube.Client
	clock  clock.Clock
	kinds  map[string]Kind
	// maxDeprovisioned is the constant, except in tests.
	maxDeprovisioned int
}

// NewSweep returns a Sweep of the claims on the given attributes; others are kept.
func NewSweep(c *kube.Client, clk clock.Clock, attributes ...Kind) *Sweep {
	s := &Sweep{client: c, clock: clk, kinds: map[string]Kind{}, maxDeprovisioned: maxDeprovisioned}
	for _, a := range attributes {
		s.kinds[a.id()] = a
	}
	return s
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *Sweep) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it sweeps at intervals until the context ends.
func (s *Sweep) Start(ctx context.Context) error {
	for delay := initialDelay; ; delay = sweepInterval {
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(delay):
		}
		if err := s.Once(ctx); err != nil {
			log.FromContext(ctx).Info("Cannot delete orphaned claims; retried in the next sweep", "cause", err.Error())
		}
	}
}

// Once sweeps all claims. An error for one claim does not affect the others.
func (s *Sweep) Once(ctx context.Context) error {
	list := &v1alpha1.ClaimList{}
	if err := s.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	failed := []error{s.sweepDeprovisioned(ctx, list)}
	for i := range list.Items {
		claim := &list.Items[i]
		kind, known := s.kinds[claim.Spec.Attribute]
		if !known || !kind.mayBeOrphaned(claim) || s.clock.Since(claim.CreationTimestamp.Time) <= inFlightGracePeriod {
			continue
		}
		if err := s.sweep(ctx, kind, claim); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("sweep claim %q: %w", client.ObjectKeyFromObject(claim), err))
		}
	}
	return errors.Join(failed...)
}

// sweep deletes a claim whose holder does not have the value: neither in the cache, which is
// checked first because it is cheap, nor at the API server.
func (s *Sweep) sweep(ctx context.Context, kind Kind, claim *v1alpha1.Claim) error {
	for _, reader := range []client.Reader{s.client.Client, s.client.Live()} {
		if held, err := kind.holds(ctx, reader, claim); held || err != nil {
			return err
		}
	}
	return remove(ctx, s.client, claim)
}
