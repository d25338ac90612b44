package usertokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/oauth2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
)

const (
	// interval is the time between two looks for tokens that are due. With the lease it is the time after which the refresh of
	// a process that was killed is tried again: less than the 30 seconds for which providers accept a refresh token again.
	interval = 5 * time.Second
	// sweepInterval is the time between two looks for people who have left and integrations that were deleted. Both are
	// observed at once; this finds what was missed while no replica ran.
	sweepInterval = 10 * time.Minute
	// batch is the number of tokens that a replica leases at a time. It works on all of them at once, so that no lease ends
	// while it waits.
	batch = 16
	// workTimeout is the timeout of an exchange or refresh, with storing its result. A lease is longer.
	workTimeout = usertoken.Lease - 3*time.Second
	// storeRetry is the time between two attempts to store the result of a refresh.
	storeRetry = 200 * time.Millisecond
	// notCached is the time after which a token is worked on whose integration exists and is not in the cache.
	notCached = time.Minute
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
				s.Log.ErrorContext(ctx, "Cannot look for OAuth tokens of people who have left and of deleted integrations", "error", err.Error())
			}
		}
		if err := errors.Join(s.deleteObserved(ctx), s.Round(ctx)); err != nil && ctx.Err() == nil {
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
		var group sync.WaitGroup
		for _, l := range due {
			group.Go(func() {
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
	if l.Revoking {
		return s.finishRevocation(ctx, a, i, l)
	}
	if i == nil {
		return s.withoutIntegration(ctx, a, l)
	}
	return s.refresh(ctx, a, i, l)
}

// withoutIntegration deletes the tokens of an integration that was deleted.
func (s *Service) withoutIntegration(ctx context.Context, a *v1alpha1.Account, l usertoken.Leased) error {
	exists, err := s.exists(ctx, a, l.Integration)
	if err != nil {
		return err
	}
	if exists {
		return s.Store.Release(ctx, l, s.Clock.Now().Add(notCached))
	}
	defer s.Wake()
	return s.Store.DeleteOf(ctx, l.Account, l.Integration)
}

// finishRevocation revokes a deleted token at the provider. i is nil if the integration was deleted.
func (s *Service) finishRevocation(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, l usertoken.Leased) error {
	held, err := s.open(ctx, a, l.Token)
	if errors.Is(err, keyring.ErrUnknownKey) {
		return s.Store.Forget(ctx, l)
	}
	by := held.By
	if i != nil && err == nil { // its endpoint and secret may be other ones than when the token was issued
		if config, unreadable := s.client(ctx, a, i); unreadable == nil {
			by = held.revocationBy(i, config)
		} else if by == nil {
			err = unreadable
		}
	}
	if err == nil {
		err = s.revoke(ctx, by, held)
	}
	if err == nil {
		return s.Store.Forget(ctx, l)
	}
	if l.Failures == 0 {
		s.Log.WarnContext(ctx, "Cannot revoke an OAuth token at its provider", "account", a.Name, "integration", l.Integration, "error", err.Error())
	}
	pause := retryAfter(l.Failures)
	if longestRetry*time.Duration(l.Failures) > revokeFor {
		return s.Store.Forget(ctx, l)
	}
	return s.Store.Failed(ctx, l, l.Status, err.Error(), s.Clock.Now().Add(pause))
}

// refresh refreshes the token of a person (RFC 6749, section 6). The result is stored also if the caller disconnects or the
// process is asked to stop: the provider may not accept the previous refresh token any more.
func (s *Service) refresh(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, l usertoken.Leased) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
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
	stored, err := s.storeRefreshed(ctx, l, in)
	if err != nil || stored {
		return err
	}
	// The person has deleted it, or authorized the integration again, since it was leased. Then it is left to expire, as the token
	// that was replaced: some providers revoke the whole authorization with one token.
	_, err = s.Store.Find(ctx, l.Account.UID, l.User, l.Integration)
	if err == nil {
		return nil
	}
	if !errors.Is(err, usertoken.ErrUnknown) {
		return err
	}
	if err := s.revoke(ctx, got.By, got.secrets); err != nil {
		s.Log.WarnContext(ctx, "Cannot revoke an OAuth token that is not needed", "account", a.Name, "oauthIntegration", i.Name, "error", err.Error())
	}
	return nil
}

// storeRefreshed stores the result of a refresh. A failure of the database is tried again until shortly before another replica
// may lease the token.
func (s *Service) storeRefreshed(ctx context.Context, l usertoken.Leased, in usertoken.New) (bool, error) {
	for {
		stored, err := s.Store.Refreshed(ctx, l, in)
		if err == nil {
			return stored, nil
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(storeRetry):
		}
	}
}

func (s *Service) refreshed(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, held secrets) (*received, error) {
	if !held.mayReach(i.Spec.TokenURL) {
		return nil, errOtherHost
	}
	config, err := s.client(ctx, a, i)
	if err != nil {
		return nil, err
	}
	got, err := s.request(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return config.TokenSource(ctx, &oauth2.Token{RefreshToken: held.Refresh}).Token()
	})
	if err == nil {
		got.Host, got.By = oauthintegration.HostOf(i.Spec.TokenURL), held.revocationBy(i, config)
	}
	return got, err
}

// Sweep deletes the tokens of people who were deactivated or deleted, and those of integrations that were deleted.
func (s *Service) Sweep(ctx context.Context) error {
	return errors.Join(s.sweepPeople(ctx), s.sweepIntegrations(ctx))
}

// sweepIntegrations deletes the tokens of integrations that were deleted.
func (s *Service) sweepIntegrations(ctx context.Context) error {
	all, err := s.Store.Integrations(ctx)
	if err != nil {
		return err
	}
	for _, used := range all {
		a := &v1alpha1.Account{}
		if err := s.Cache.Get(ctx, client.ObjectKey{Name: used.Account.Name}, a); err != nil || string(a.UID) != used.Account.UID {
			continue // its rows are purged
		}
		i, err := s.integration(ctx, a, used.ID)
		if err != nil {
			return err
		}
		exists := i != nil
		if !exists {
			exists, err = s.exists(ctx, a, used.ID)
		}
		if err == nil && !exists {
			err = s.Store.DeleteOf(ctx, used.Account, used.ID)
			s.Wake()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exists reports whether an account has the integration with a number, by the Kubernetes API server. One that was just created,
// such as one of a backup, has its number in the label only.
func (s *Service) exists(ctx context.Context, a *v1alpha1.Account, id int64) (bool, error) {
	list := &v1alpha1.OAuthIntegrationList{}
	if err := s.Live.List(ctx, list, client.InNamespace(a.Spec.Namespace)); err != nil {
		return false, fmt.Errorf("list OAuth integrations: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(i v1alpha1.OAuthIntegration) bool {
		return i.Status.ID == id || i.Labels[v1alpha1.LabelID] == strconv.FormatInt(id, 10)
	}), nil
}

func (s *Service) sweepPeople(ctx context.Context) error {
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
			isCurrent, err := s.isCurrent(ctx, a, p.User, p.Oldest, p.UserUIDs[:]...)
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

// isCurrent reports whether a person is active and is the one of tokens: another person may have the id of one who was deleted. The
// UIDs decide, because a restore creates all people again; for an empty one, the person must have existed when the tokens were created.
func (s *Service) isCurrent(ctx context.Context, a *v1alpha1.Account, user string, created time.Time, uids ...string) (bool, error) {
	u := &v1alpha1.ScimUser{}
	err := s.Cache.Get(ctx, client.ObjectKey{Namespace: a.Spec.Namespace, Name: user}, u)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	isOther := slices.ContainsFunc(uids, func(uid string) bool {
		if uid == "" {
			return u.CreationTimestamp.After(created.Add(time.Second))
		}
		return uid != string(u.UID)
	})
	return err == nil && u.IsActive() && !isOther, err
}

// Left makes Run delete the tokens of a person who was deactivated or deleted: a ScimUser.
func (s *Service) Left(user client.ObjectKey) {
	s.mu.Lock()
	s.left[user] = struct{}{}
	s.mu.Unlock()
	s.Wake()
}

// IntegrationDeleted makes Run delete the tokens of integrations that were deleted.
func (s *Service) IntegrationDeleted() {
	s.mu.Lock()
	s.deleted = true
	s.mu.Unlock()
	s.Wake()
}

// deleteObserved deletes the tokens of people who have left and of integrations that were deleted. What fails is done by Sweep.
func (s *Service) deleteObserved(ctx context.Context) error {
	s.mu.Lock()
	left, deleted := s.left, s.deleted
	s.left, s.deleted = map[client.ObjectKey]struct{}{}, false
	s.mu.Unlock()
	err := s.deleteLeft(ctx, left)
	if deleted {
		err = errors.Join(err, s.sweepIntegrations(ctx))
	}
	return err
}

func (s *Service) deleteLeft(ctx context.Context, left map[client.ObjectKey]struct{}) error {
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
