package usertokens

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
)

const (
	// shortest is the remaining lifetime with which an access token is handed out.
	shortest = 30 * time.Second
	// refreshWait is the time for which a request waits for the refresh of another one, and refreshPoll the time between two
	// looks for it.
	refreshWait = requestTimeout
	refreshPoll = 100 * time.Millisecond
)

// Credential is the access token of a person, as data tokens have it.
type Credential struct {
	AccessToken string `json:"accessToken,omitempty"`
	// AccessTokenExpiresAt is nil if the provider does not tell.
	AccessTokenExpiresAt *time.Time `json:"accessTokenExpiresAt,omitempty"`
	Status               string     `json:"status"`
}

// Credentials returns the access tokens of a person for the integrations that a deployment names, by their types. An
// integration without a valid token has its status only. They must not be logged.
func (s *Service) Credentials(ctx context.Context, a *v1alpha1.Account, user string, d *v1alpha1.Deployment) (map[string]Credential, error) {
	out := map[string]Credential{}
	for _, ref := range d.Spec.OAuthIntegrations {
		i := &v1alpha1.OAuthIntegration{}
		err := s.Cache.Get(ctx, client.ObjectKey{Namespace: a.Spec.Namespace, Name: ref.Name}, i)
		if apierrors.IsNotFound(err) || err == nil && i.Status.ID == 0 {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read an OAuth integration: %w", err)
		}
		if _, given := out[i.Spec.Type]; given {
			continue
		}
		found, err := s.credential(ctx, a, i, user)
		if err != nil {
			return nil, err
		}
		if found != nil {
			out[i.Spec.Type] = *found
		}
	}
	return out, nil
}

// credential returns the access token of a person for an integration; nil if the person has not authorized it.
func (s *Service) credential(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, user string) (*Credential, error) {
	t, err := s.Store.Find(ctx, string(a.UID), user, i.Status.ID)
	if errors.Is(err, usertoken.ErrUnknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	isCurrent, err := s.isCurrent(ctx, a, user, t.CreatedAt, t.UserUID)
	if !isCurrent || err != nil {
		return nil, err
	}
	if s.isExpiring(t) && t.Status != usertoken.Ended {
		if t, err = s.refreshNow(ctx, a, i, t); err != nil {
			return nil, err
		}
	}
	out := &Credential{Status: string(t.Status)}
	if s.isExpiring(t) {
		return out, nil
	}
	held, err := s.open(ctx, a, t)
	if errors.Is(err, keyring.ErrUnknownKey) {
		return &Credential{Status: string(usertoken.Ended)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt the token of a user: %w", err)
	}
	out.AccessToken = held.Access
	if !t.AccessExpiresAt.IsZero() {
		out.AccessTokenExpiresAt = &t.AccessExpiresAt
	}
	return out, nil
}

// isExpiring reports whether an access token must not be handed out any more.
func (s *Service) isExpiring(t *usertoken.Token) bool {
	return !t.AccessExpiresAt.IsZero() && t.AccessExpiresAt.Sub(s.Clock.Now()) < shortest
}

// refreshNow refreshes a token, or waits while another replica does so, and returns it as it is then. It does nothing if the next
// attempt is not due yet.
func (s *Service) refreshNow(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, t *usertoken.Token) (*usertoken.Token, error) {
	if t.Status == usertoken.Failing {
		return t, nil // it waits for its next attempt
	}
	l, err := s.Store.LeaseOf(ctx, stored(a), t.User, t.Integration)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return s.refreshedElsewhere(ctx, a, t)
	}
	if s.isExpiring(l.Token) {
		err = s.refresh(ctx, a, i, *l)
	} else {
		err = s.Store.Release(ctx, *l, l.DueAt())
	}
	if err != nil {
		return nil, err
	}
	return s.current(ctx, a, t)
}

// current returns a token as it is now; the given one if it was deleted.
func (s *Service) current(ctx context.Context, a *v1alpha1.Account, t *usertoken.Token) (*usertoken.Token, error) {
	found, err := s.Store.Find(ctx, string(a.UID), t.User, t.Integration)
	if errors.Is(err, usertoken.ErrUnknown) {
		return t, nil
	}
	return found, err
}

// refreshedElsewhere waits until another request or replica has refreshed a token, and returns it as it is then.
func (s *Service) refreshedElsewhere(ctx context.Context, a *v1alpha1.Account, t *usertoken.Token) (*usertoken.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshWait)
	defer cancel()
	for {
		found, err := s.current(ctx, a, t)
		if err != nil || found == t || !s.isExpiring(found) || found.Status != usertoken.Active {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, nil
		case <-time.After(refreshPoll):
		}
	}
}
