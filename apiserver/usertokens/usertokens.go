// Package usertokens obtains OAuth tokens of people for the integrations of an account, refreshes them before they expire,
// and revokes them. Package usertoken stores them, encrypted by package keyring (docs/decisions/0079).
//
//	POST …/initiate ──▶ authorization URL ──▶ provider ──▶ /auth/integrations/callback ──▶ token
//
//	usertokens.go   the service: beginning and completing an authorization
//	provider.go     requests to providers
//	work.go         the worker: refresh, revocation, people who have left
//	credentials.go  tokens for data tokens
package usertokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
	"github.com/quoin-dev/quoin/internal/store"
)

// Options configure a Service.
type Options struct {
	Store *usertoken.Store
	Keys  *keyring.Keyring
	// Cache has Accounts, OAuthIntegrations and ScimUsers.
	Cache client.Reader
	// Live reads Secrets from the Kubernetes API server.
	Live client.Reader
	// HTTP is the client for requests to providers; nil for the default. Only https URLs are requested, and redirects are
	// not followed.
	HTTP  *http.Client
	Clock clock.PassiveClock
	Log   *slog.Logger
}

// Service has the OAuth tokens of people. Create it with New.
type Service struct {
	Options
	wake chan struct{}

	mu sync.Mutex
	// left are people who were deactivated or deleted since the last round, by namespace and id.
	left map[client.ObjectKey]struct{}
	// deleted reports whether an integration was deleted since the last round.
	deleted bool
}

// New returns a Service.
func New(o Options) *Service {
	o.HTTP = restricted(o.HTTP)
	return &Service{Options: o, wake: make(chan struct{}, 1), left: map[client.ObjectKey]struct{}{}}
}

// stored returns an account as the database has it.
func stored(a *v1alpha1.Account) store.Account {
	return store.Account{UID: string(a.UID), Name: a.Name}
}

// isReady reports whether people can authorize an integration.
func isReady(i *v1alpha1.OAuthIntegration) bool {
	return i.DeletionTimestamp.IsZero() && i.Status.ObservedGeneration == i.Generation && meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionReady)
}

// integration returns the integration of an account with a number; nil if there is none.
func (s *Service) integration(ctx context.Context, a *v1alpha1.Account, id int64) (*v1alpha1.OAuthIntegration, error) {
	list := &v1alpha1.OAuthIntegrationList{}
	if err := s.Cache.List(ctx, list, client.InNamespace(a.Spec.Namespace)); err != nil {
		return nil, fmt.Errorf("list OAuth integrations: %w", err)
	}
	at := slices.IndexFunc(list.Items, func(i v1alpha1.OAuthIntegration) bool { return id > 0 && i.Status.ID == id })
	if at < 0 {
		return nil, nil
	}
	return &list.Items[at], nil
}

// errNoIntegration is returned for a number that no integration has.
func errNoIntegration(id int64) error {
	return content.Errorf(content.NotFound, "integrationId: OAuth integration %d does not exist", id)
}

// client returns Quoin as a client of the provider of an integration.
func (s *Service) client(ctx context.Context, a *v1alpha1.Account, i *v1alpha1.OAuthIntegration) (*oauth2.Config, error) {
	ref, held := i.Spec.ClientSecretRef, &corev1.Secret{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: ref.Name}, held)
	value := strings.TrimRight(string(held.Data[ref.Key]), "\r\n")
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in namespace %q: %w", i.Namespace, err)
	case err != nil:
		return nil, fmt.Errorf("read the client secret of OAuth integration %q: %w", i.Name, err)
	case value == "":
		return nil, fmt.Errorf("OAuth integration %q: Secret %q has no key %q", i.Name, ref.Name, ref.Key)
	}
	return oauthintegration.Client(a, i, value), nil
}

// flowOf and tokenOf name what a secret belongs to: see keyring.
func flowOf(user string, integration int64) string {
	return fmt.Sprintf("flow %q %d", user, integration)
}

func tokenOf(user string, integration int64) string {
	return fmt.Sprintf("token %q %d", user, integration)
}

// Authorization is an authorization that a person has begun.
type Authorization struct {
	// URL is the address at the provider that the person opens in a browser.
	URL       string
	ExpiresAt time.Time
}

// Begin begins the authorization of an integration by a person, the ScimUser with an id.
func (s *Service) Begin(ctx context.Context, a *v1alpha1.Account, user string, id int64) (*Authorization, error) {
	i, err := s.integration(ctx, a, id)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, errNoIntegration(id)
	}
	if !isReady(i) {
		return nil, content.Errorf(content.Conflict, "integrationId: OAuth integration %d is not ready: an administrator sees the reason in its status", id)
	}
	state, verifier := usertoken.NewState(), oauth2.GenerateVerifier()
	config := oauthintegration.Client(a, i, "")
	flow := usertoken.Flow{User: user, Integration: id, RedirectURI: config.RedirectURL}
	if flow.Verifier.KeyID, flow.Verifier.Text, err = s.Keys.Seal(ctx, a, flowOf(user, id), []byte(verifier)); err != nil {
		return nil, err
	}
	expires, err := s.Store.Begin(ctx, stored(a), state, flow)
	if err != nil {
		return nil, err
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	for name, value := range i.Spec.AuthorizationParameters {
		options = append(options, oauth2.SetAuthURLParam(name, string(value)))
	}
	return &Authorization{config.AuthCodeURL(state, options...), expires}, nil
}

// Complete ends an authorization with the response of a provider, at a path of this host, in the browser of a person. It
// returns the name of the integration. A *content.Error has a message for the person.
func (s *Service) Complete(ctx context.Context, a *v1alpha1.Account, user, path string, response url.Values) (string, error) {
	const again = "The authorization was not begun by you, was completed before, or has expired. Begin it again."
	flow, err := s.Store.End(ctx, stored(a), user, response.Get("state"))
	if errors.Is(err, usertoken.ErrUnknown) {
		return "", content.Errorf(content.Invalid, again)
	}
	if err != nil {
		return "", err
	}
	i, err := s.integration(ctx, a, flow.Integration)
	if err != nil {
		return "", err
	}
	if i == nil || !isReady(i) {
		return "", content.Errorf(content.Conflict, "The integration was deleted or is not ready. Ask an administrator.")
	}
	// RFC 9700, section 4.4.2.2: the response is that of the provider to which the person was sent.
	if u, err := url.Parse(flow.RedirectURI); err != nil || u.Path != path || flow.RedirectURI != oauthintegration.RedirectURL(a, i) {
		return "", content.Errorf(content.Invalid, "The response is that of another provider. Begin the authorization again.")
	}
	if code := response.Get("error"); code != "" {
		return "", content.Errorf(content.Invalid, "The provider has rejected the authorization: %s.", printable(code))
	}
	verifier, err := s.Keys.Open(ctx, a, flowOf(user, flow.Integration), flow.Verifier.KeyID, flow.Verifier.Text)
	if err != nil {
		return "", fmt.Errorf("decrypt a code verifier: %w", err)
	}
	config, err := s.client(ctx, a, i)
	if err != nil {
		return "", err
	}
	person := &v1alpha1.ScimUser{}
	if err := s.Cache.Get(ctx, client.ObjectKey{Namespace: a.Spec.Namespace, Name: user}, person); err != nil {
		return "", fmt.Errorf("read user %q: %w", user, err)
	}
	config.RedirectURL = flow.RedirectURI
	// From here on, the token is stored also if the browser disconnects: a code is exchanged once.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
	received, err := s.request(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return config.Exchange(ctx, response.Get("code"), oauth2.VerifierOption(string(verifier)))
	})
	var refused *refusedError
	if errors.As(err, &refused) {
		return "", content.Errorf(content.Invalid, "The provider has rejected the authorization: %s. Begin it again.", refused.code)
	}
	if err != nil {
		return "", content.Errorf(content.BadGateway, "The provider does not respond: %s. Begin the authorization again later.", err)
	}
	received.Host, received.By = oauthintegration.HostOf(i.Spec.TokenURL), revocationOf(i, config)
	in, err := s.sealed(ctx, a, user, flow.Integration, received)
	if err != nil {
		return "", err
	}
	in.UserUID = string(person.UID)
	if _, err := s.Store.Put(ctx, stored(a), user, flow.Integration, in); err != nil {
		return "", err
	}
	return oauthintegration.Name(i), nil
}

// secrets are the tokens of a person at a provider, as they are encrypted.
type secrets struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh,omitempty"`
	// Host is that of the token endpoint that has issued them; empty for those of an earlier release, until they are refreshed.
	Host string `json:"host,omitempty"`
	// By is how the tokens are revoked; nil if the provider has no revocation endpoint.
	By *revocation `json:"revocation,omitempty"`
}

// sealed returns a token to store.
func (s *Service) sealed(ctx context.Context, a *v1alpha1.Account, user string, id int64, received *received) (usertoken.New, error) {
	data, err := json.Marshal(received.secrets)
	if err != nil {
		return usertoken.New{}, err
	}
	in := usertoken.New{AccessExpiresAt: received.accessExpires, RefreshExpiresAt: received.refreshExpires}
	if received.Refresh != "" {
		in.DueAt = refreshAt(s.Clock.Now(), received.accessExpires)
	}
	in.Sealed.KeyID, in.Sealed.Text, err = s.Keys.Seal(ctx, a, tokenOf(user, id), data)
	return in, err
}

// open returns the tokens of a person at a provider.
func (s *Service) open(ctx context.Context, a *v1alpha1.Account, t *usertoken.Token) (secrets, error) {
	var out secrets
	data, err := s.Keys.Open(ctx, a, tokenOf(t.User, t.Integration), t.Sealed.KeyID, t.Sealed.Text)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(data, &out)
}

// List returns the tokens of a person for integrations that exist.
func (s *Service) List(ctx context.Context, a *v1alpha1.Account, user string) ([]*usertoken.Token, error) {
	all, err := s.Store.List(ctx, string(a.UID), user)
	if err != nil {
		return nil, err
	}
	integrations := &v1alpha1.OAuthIntegrationList{}
	if err := s.Cache.List(ctx, integrations, client.InNamespace(a.Spec.Namespace)); err != nil {
		return nil, fmt.Errorf("list OAuth integrations: %w", err)
	}
	exists := map[int64]bool{}
	for i := range integrations.Items {
		exists[integrations.Items[i].Status.ID] = true
	}
	return slices.DeleteFunc(all, func(t *usertoken.Token) bool { return !exists[t.Integration] }), nil
}

// Find returns the token of a person for an integration.
func (s *Service) Find(ctx context.Context, a *v1alpha1.Account, user string, id int64) (*usertoken.Token, error) {
	i, err := s.integration(ctx, a, id)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, errNoIntegration(id)
	}
	t, err := s.Store.Find(ctx, string(a.UID), user, id)
	if errors.Is(err, usertoken.ErrUnknown) {
		return nil, errNoToken(id)
	}
	return t, err
}

func errNoToken(id int64) error {
	return content.Errorf(content.NotFound, "integrationId: you have no token for OAuth integration %d: authorize it first", id)
}

// Revoke deletes the token of a person for an integration. It is revoked at the provider in the background.
func (s *Service) Revoke(ctx context.Context, a *v1alpha1.Account, user string, id int64) error {
	err := s.Store.Delete(ctx, stored(a), user, id)
	if errors.Is(err, usertoken.ErrUnknown) {
		return errNoToken(id)
	}
	s.Wake()
	return err
}

// printable returns a short text without what could be markup or a control character.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`<>"'&\`, r) {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), 100)]
}
