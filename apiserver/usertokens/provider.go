package usertokens

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
)

const (
	// requestTimeout is the timeout of a request to a provider. It is shorter than a lease.
	requestTimeout = 10 * time.Second
	// maxResponse is the maximum size of a response in bytes.
	maxResponse = 256 << 10
	// maxToken is the maximum length of a token in bytes: a data token must fit into a header.
	maxToken = 8 << 10
	// maxLifetime is the longest lifetime of a token that is accepted.
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// refusedError is the rejection of a request by a provider (RFC 6749, section 5.2).
type refusedError struct{ code string }

func (e *refusedError) Error() string { return "the provider has rejected the request: " + e.code }

// ends reports whether the person has to authorize the integration again. invalid_client and the like are mistakes of the
// integration, which an administrator can correct.
func (e *refusedError) ends() bool { return e.code == "invalid_grant" }

// received is what a provider has issued.
type received struct {
	secrets
	// accessExpires and refreshExpires are zero if the provider does not tell.
	accessExpires, refreshExpires time.Time
}

// request requests a token. Errors contain nothing of the response but its status and the code of its error.
func (s *Service) request(ctx context.Context, send func(context.Context) (*oauth2.Token, error)) (*received, error) {
	now := s.Clock.Now()
	token, err := send(context.WithValue(ctx, oauth2.HTTPClient, s.HTTP))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return nil, &refusedError{printable(refused.ErrorCode)}
	case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode == http.StatusOK:
		return nil, errors.New("the response has no access token")
	case errors.As(err, &refused) && refused.Response != nil:
		return nil, fmt.Errorf("the status of the response is %d", refused.Response.StatusCode)
	case err != nil:
		return nil, withoutURL(err)
	case token.AccessToken == "" || len(token.AccessToken) > maxToken || len(token.RefreshToken) > maxToken:
		return nil, fmt.Errorf("the tokens have %d and %d bytes; allowed: at most %d", len(token.AccessToken), len(token.RefreshToken), maxToken)
	}
	out := &received{secrets: secrets{Access: token.AccessToken, Refresh: token.RefreshToken}}
	out.accessExpires = expiry(now, secondsOf(token.Extra("expires_in")))
	out.refreshExpires = expiry(now, secondsOf(token.Extra("refresh_token_expires_in"), token.Extra("refresh_expires_in")))
	return out, nil
}

// secondsOf returns the first number; 0 if there is none.
func secondsOf(values ...any) int64 {
	for _, value := range values {
		switch n := value.(type) {
		case float64:
			return int64(n)
		case string: // of a form, or of a provider that quotes numbers
			if seconds, err := strconv.ParseInt(n, 10, 64); err == nil {
				return seconds
			}
		}
	}
	return 0
}

// expiry returns when a token expires; zero if the provider does not tell, or tells no sensible time.
func expiry(now time.Time, seconds int64) time.Time {
	if seconds <= 0 || seconds > int64(maxLifetime/time.Second) {
		return time.Time{}
	}
	return now.Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Microsecond)
}

// withoutURL returns an error of the HTTP client without the URL, whose query may have secrets.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

const (
	// margin is the remaining lifetime of an access token at which it is refreshed, and spread the time over which tokens
	// that were issued together are.
	margin, spread = 5 * time.Minute, time.Minute
	// untold is when a token is refreshed whose lifetime the provider does not tell.
	untold = 45 * time.Minute
)

// refreshAt returns when an access token is refreshed: before it expires, and a short-lived one after two thirds of its
// lifetime.
func refreshAt(now, expires time.Time) time.Time {
	if expires.IsZero() {
		return now.Add(untold)
	}
	lifetime := expires.Sub(now)
	if lifetime < 3*margin {
		return now.Add(lifetime * 2 / 3)
	}
	return expires.Add(-margin - rand.N(spread)) //nolint:gosec // not security-relevant
}

const shortestRetry, longestRetry = 30 * time.Second, 30 * time.Minute

// retryAfter returns the time before the next attempt: exponential, with jitter.
func retryAfter(failures int) time.Duration {
	pause := min(shortestRetry<<min(failures, 16), longestRetry)
	return pause/2 + rand.N(pause/2) //nolint:gosec // not security-relevant
}

// revocation is what revoking tokens needs. It is stored with them: an integration that is deleted, and the Secret with the
// client's secret, do not exist any more when its tokens are revoked.
type revocation struct {
	URL      string `json:"url"`
	ClientID string `json:"clientId"`
	Secret   string `json:"clientSecret"`
	// Post sends the client's secret in the body.
	Post bool `json:"post,omitempty"`
}

// revocationOf returns how tokens of an integration are revoked; nil if its provider has no revocation endpoint.
func revocationOf(i *v1alpha1.OAuthIntegration, config *oauth2.Config) *revocation {
	if i.Spec.RevocationURL == "" {
		return nil
	}
	return &revocation{string(i.Spec.RevocationURL), config.ClientID, config.ClientSecret, config.Endpoint.AuthStyle == oauth2.AuthStyleInParams}
}

// mayReach reports whether an endpoint of the integration may get the tokens: its host has issued them, or was to revoke them when
// they were issued. The endpoints may have been changed since then by someone who must not have the tokens.
func (t *secrets) mayReach(endpoint v1alpha1.HTTPSEndpoint) bool {
	host := oauthintegration.HostOf(endpoint)
	return t.Host == "" || host == t.Host || t.By != nil && host == oauthintegration.HostOf(v1alpha1.HTTPSEndpoint(t.By.URL))
}

// revocationBy returns how the tokens are revoked now: as the integration tells, or as when they were issued if its endpoint may not
// get them.
func (t *secrets) revocationBy(i *v1alpha1.OAuthIntegration, config *oauth2.Config) *revocation {
	if i.Spec.RevocationURL != "" && !t.mayReach(i.Spec.RevocationURL) {
		return t.By
	}
	return revocationOf(i, config)
}

// errOtherHost is returned for the refresh of a token at a host that has not issued it.
var errOtherHost = errors.New("the token endpoint of the integration is on another host than the one that has issued the token: authorize the integration again")

// revoke revokes the tokens of a person at a provider (RFC 7009). Revoking the refresh token ends the access tokens too.
func (s *Service) revoke(ctx context.Context, by *revocation, of secrets) error {
	if by == nil {
		return nil
	}
	for _, t := range []struct{ hint, token string }{{"refresh_token", of.Refresh}, {"access_token", of.Access}} {
		if t.token == "" {
			continue
		}
		if err := s.revokeOne(ctx, by, url.Values{"token": {t.token}, "token_type_hint": {t.hint}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) revokeOne(ctx context.Context, by *revocation, form url.Values) error {
	if by.Post {
		form.Set("client_id", by.ClientID)
		form.Set("client_secret", by.Secret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, by.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return errors.New("the revocation endpoint is not a valid URL")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if !by.Post {
		r.SetBasicAuth(url.QueryEscape(by.ClientID), url.QueryEscape(by.Secret))
	}
	response, err := s.HTTP.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	_ = response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the status of the response is %d", response.StatusCode)
	}
	return nil
}

// restricted returns a copy of a client with a timeout and a maximum response size that requests https URLs only and does not
// follow redirects: a request has the client's secret.
func restricted(base *http.Client) *http.Client {
	c := http.Client{}
	if base != nil {
		c = *base
	}
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Timeout, c.Transport, c.Jar = requestTimeout, bounded{c.Transport}, nil
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errors.New("the endpoint is not https")
	}
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
	return response, nil
}
