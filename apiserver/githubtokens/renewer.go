package githubtokens

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/tenant"
)

const (
	// interval is the time between two looks for tokens that are due.
	interval = 15 * time.Second
	// concurrency is the number of tokens that are renewed at a time.
	concurrency = 8
	// shortestRetry and longestRetry are the times between attempts that fail.
	shortestRetry, longestRetry = 30 * time.Second, 10 * time.Minute
	// spread is the time over which replicas renew: the one that is first saves the others the work.
	spread = 5 * time.Minute
)

// Renewer renews the tokens of all deployments that name an installation. Every replica runs one.
type Renewer struct {
	Secrets *Secrets
	// Cache has Accounts and Deployments.
	Cache client.Reader
	Log   *slog.Logger

	mu  sync.Mutex
	due map[types.UID]attempt
}

// attempt is when a token is looked at again.
type attempt struct {
	target Target
	at     time.Time
	failed int
}

// same reports whether two targets have the same token.
func (t Target) same(other Target) bool {
	return t.Secret == other.Secret && t.Installation == other.Installation && t.URL == other.URL
}

// Run renews tokens until the context ends.
func (r *Renewer) Run(ctx context.Context) error {
	for {
		if err := r.Round(ctx); err != nil {
			r.Log.ErrorContext(ctx, "Cannot look for GitHub tokens to renew", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// Round renews the tokens that are due.
func (r *Renewer) Round(ctx context.Context) error {
	accounts, list := &v1alpha1.AccountList{}, &v1alpha1.DeploymentList{}
	if err := r.Cache.List(ctx, accounts, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list accounts: %w", err)
	}
	if err := r.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list deployments: %w", err)
	}
	owners := tenant.Owners(accounts.Items)
	known := map[types.UID]attempt{}
	slots := make(chan struct{}, concurrency)
	var group sync.WaitGroup
	for i := range list.Items {
		d := &list.Items[i]
		t, ok := TargetOf(d)
		if !ok || !d.DeletionTimestamp.IsZero() {
			continue
		}
		last, seen := r.due[d.UID]
		if seen && last.target.same(t) && r.Secrets.Now().Before(last.at) {
			r.keep(known, d.UID, last)
			continue
		}
		if !seen || !last.target.same(t) {
			last = attempt{target: t}
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			r.keep(known, d.UID, r.renew(ctx, owners[d.Namespace], t, last))
		})
	}
	group.Wait()
	r.due = known
	return nil
}

func (r *Renewer) keep(in map[types.UID]attempt, uid types.UID, a attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in[uid] = a
}

// renew renews a token if necessary, and returns when it is looked at again.
func (r *Renewer) renew(ctx context.Context, account *v1alpha1.Account, t Target, last attempt) attempt {
	var expires time.Time
	err := permitted(account, t)
	if err == nil {
		expires, err = r.Secrets.Ensure(ctx, t)
	}
	if err != nil {
		return r.failed(ctx, t, last, err)
	}
	return attempt{target: t, at: expires.Add(-reserve).Add(rand.N(spread))} //nolint:gosec // not security-relevant
}

// permitted returns an error if the account of a target may not use its installation.
func permitted(account *v1alpha1.Account, t Target) error {
	switch {
	case account == nil:
		return fmt.Errorf("namespace %q has no account", t.Deployment.Namespace)
	case !Allowed(account, t.Installation):
		return fmt.Errorf("account %q may not use installation %d: an administrator has to add it to spec.github.installationIds", account.Name, t.Installation)
	}
	return nil
}

// failed returns when a renewal that has failed is attempted again. It logs the first failure in a row.
func (r *Renewer) failed(ctx context.Context, t Target, last attempt, err error) attempt {
	now := r.Secrets.Now()
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another replica was first
		return attempt{target: t, at: now.Add(shortestRetry), failed: last.failed}
	}
	if last.failed == 0 {
		r.Log.ErrorContext(ctx, "Cannot renew a GitHub token", "namespace", t.Deployment.Namespace, "deployment", t.Deployment.Name,
			"secret", t.Secret, "error", err.Error())
	}
	return attempt{target: t, at: now.Add(min(shortestRetry<<min(last.failed, 8), longestRetry)), failed: last.failed + 1}
}
