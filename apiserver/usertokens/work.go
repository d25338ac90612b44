package usertokens

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/oauth2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
)

const (
	// interval is the time between two looks for tokens that are due.
	interval = 10 * time.Second
	// sweepInterval is the time between two looks for people who have left. Their deactivation is observed at once; this
	// finds what was missed while no replica ran.
	sweepInterval = 10 * time.Minute
	// batch is the number of tokens that a replica leases at a time, and concurrency that of requests to providers.
	batch, concurrency = 32, 8
	// revokeFor is how long the revocation of a deleted token is attempted.
	revokeFor = 24 * time.Hour
	// page is the number of people that are read at a time.
	page = 500
)

// Wake makes Run look for tokens that are due, such as one to revoke.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run refreshes and revokes tokens until the context ends. Every replica may run it.
func (s *Service) Run(ctx context.Context) error {
	swept := time.Time{}
	for {
		if now := s.Clock.Now(); now.Sub(swept) >= sweepInterval {
			swept = now
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.Log.ErrorContext(ctx, "Cannot look for OAuth tokens of people who have left", "error", err.Error())
			}
		}
		if err := errors.Join(s.deleteLeft(ctx), s.Round(ctx)); err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "Cannot refresh OAuth tokens", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-time.After(interval):
		}
	}
}

// Round works on the tokens that are due.
func (s *Service) Round(ctx context.Context) error {
	for {
		due, err := s.Store.Due(ctx, batch)
		slots := make(chan struct{}, concurrency)
		var group sync.WaitGroup
		for _, l := range due {
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				if err := s.work(ctx, l); err != nil && ctx.Err() == nil {
					s.Log.ErrorContext(ctx, "Cannot work on an OAuth token", "account", l.Account.Name, "id", l.ID, "error", err.Error())
				}
			})
		}
		group.Wait()
		if err != nil || len(due) < batch {
			return err
		}
	}
}

// account returns the Account of a leased token; nil if it does not exist.
func (s *Service) account(ctx context.Context, l usertoken.Leased) (*v1alpha1.Account, error) {
	a := &v1alpha1.Account{}
	err := s.Cache.Get(ctx, client.ObjectKey{Name: l.Account.Name}, a)
	if apierrors.IsNotFound(err) || err == nil && string(a.UID) != l.Account.UID {
		return nil, nil
	}
	return a, err
}

// work refreshes or revokes a leased token.
func (s *Service) work(ctx context.Context, l usertoken.Leased) error {
	a, err := s.account(ctx, l)
	if err != nil {
		return err
	}
	if a == nil { // its rows are purged
		return s.Store.Release(ctx, l, time.Time{})
	}
	i, err := s.integration(ctx, a, l.Integration)
	if err != nil {
		return err
	}
	if i == nil { // the client's secret is gone with it
		return s.Store.Forget(ctx, l)
	}
	if l.Revoking {
		return s.finishRevocation(ctx, a, i, l)
	}
	return s.refresh(ctx, a, i, l)
}

// finishRevocation revokes a deleted token at the provider.
func (s *Service) finishRevocation(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, l usertoken.Leased) error {
	held, err := s.open(ctx, a, l.Token)
	if errors.Is(err, keyring.ErrUnknownKey) {
		return s.Store.Forget(ctx, l)
	}
	if err == nil {
		err = s.revoke(ctx, a, i, held)
	}
	if err == nil {
		return s.Store.Forget(ctx, l)
	}
	if l.Failures == 0 {
		s.Log.WarnContext(ctx, "Cannot revoke an OAuth token at its provider", "account", a.Name, "oauthIntegration", i.Name, "error", err.Error())
	}
	pause := retryAfter(l.Failures)
	if longestRetry*time.Duration(l.Failures) > revokeFor {
		return s.Store.Forget(ctx, l)
	}
	return s.Store.Failed(ctx, l, l.Status, err.Error(), s.Clock.Now().Add(pause))
}

// refresh refreshes the token of a person (RFC 6749, section 6).
func (s *Service) refresh(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, l usertoken.Leased) error {
	held, err := s.open(ctx, a, l.Token)
	if errors.Is(err, keyring.ErrUnknownKey) {
		return s.Store.Failed(ctx, l, usertoken.Ended, err.Error(), time.Time{})
	}
	if err == nil && held.Refresh == "" {
		return s.Store.Failed(ctx, l, usertoken.Ended, "the provider has issued no refresh token", time.Time{})
	}
	var got *received
	if err == nil {
		got, err = s.refreshed(ctx, a, i, held)
	}
	var refused *refusedError
	switch {
	case errors.As(err, &refused) && refused.ends():
		return s.Store.Failed(ctx, l, usertoken.Ended, refused.Error(), time.Time{})
	case err != nil:
		return s.Store.Failed(ctx, l, usertoken.Failing, err.Error(), s.Clock.Now().Add(retryAfter(l.Failures)))
	}
	if got.Refresh == held.Refresh && got.refreshExpires.IsZero() { // the provider does not rotate it
		got.refreshExpires = l.RefreshExpiresAt
	}
	in, err := s.sealed(ctx, a, l.User, l.Integration, got)
	if err != nil {
		return err
	}
	stored, err := s.Store.Refreshed(ctx, l, in)
	if err != nil || stored {
		return err
	}
	// The person has deleted it, or authorized the integration again, since it was leased.
	if err := s.revoke(ctx, a, i, got.secrets); err != nil {
		s.Log.WarnContext(ctx, "Cannot revoke an OAuth token that is not needed", "account", a.Name, "oauthIntegration", i.Name, "error", err.Error())
	}
	return nil
}

func (s *Service) refreshed(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, held secrets) (*received, error) {
	config, err := s.client(ctx, a, i)
	if err != nil {
		return nil, err
	}
	return s.request(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return config.TokenSource(ctx, &oauth2.Token{RefreshToken: held.Refresh}).Token()
	})
}

// Sweep deletes the tokens of people who were deactivated or deleted.
func (s *Service) Sweep(ctx context.Context) error {
	after := usertoken.Person{}
	for {
		people, err := s.Store.People(ctx, after, page)
		if err != nil {
			return err
		}
		for _, p := range people {
			a := &v1alpha1.Account{}
			if err := s.Cache.Get(ctx, client.ObjectKey{Name: p.Account.Name}, a); err != nil || string(a.UID) != p.Account.UID {
				continue // its rows are purged
			}
			isCurrent, err := s.isCurrent(ctx, a, p.User, p.Oldest)
			if err != nil {
				return err
			}
			if isCurrent {
				continue
			}
			if err := s.Store.DeleteAll(ctx, p.Account, p.User); err != nil {
				return err
			}
			s.Wake()
		}
		if len(people) < page {
			return nil
		}
		after = people[len(people)-1]
	}
}

// isCurrent reports whether a person is active and existed when a token was created: another person may have the id of one who
// was deleted.
func (s *Service) isCurrent(ctx context.Context, a *v1alpha1.Account, user string, created time.Time) (bool, error) {
	u := &v1alpha1.ScimUser{}
	err := s.Cache.Get(ctx, client.ObjectKey{Namespace: a.Spec.Namespace, Name: user}, u)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && u.IsActive() && !u.CreationTimestamp.After(created.Add(time.Second)), err
}

// Left makes Run delete the tokens of a person who was deactivated or deleted: a ScimUser.
func (s *Service) Left(user client.ObjectKey) {
	s.mu.Lock()
	s.left[user] = struct{}{}
	s.mu.Unlock()
	s.Wake()
}

// deleteLeft deletes the tokens of people who have left. What fails is done by Sweep.
func (s *Service) deleteLeft(ctx context.Context) error {
	s.mu.Lock()
	left := s.left
	s.left = map[client.ObjectKey]struct{}{}
	s.mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	accounts := &v1alpha1.AccountList{}
	if err := s.Cache.List(ctx, accounts); err != nil {
		return err
	}
	var failures []error
	for i := range accounts.Items {
		a := &accounts.Items[i]
		for user := range left {
			if user.Namespace == a.Spec.Namespace {
				failures = append(failures, s.Store.DeleteAll(ctx, stored(a), user.Name))
			}
		}
	}
	return errors.Join(failures...)
}
