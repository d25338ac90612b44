package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

const (
	// issuerTimeout is the timeout of a request to an issuer.
	issuerTimeout = 10 * time.Second
	// issuerBody is the maximum size of a response in bytes.
	issuerBody = 1 << 20
	// issuerPerSecond and issuerBurst limit requests to an issuer: each token with an invalid signature,
	// which unauthenticated callers can invent, fetches the keys again. A limit that is reached locks no
	// caller out, because the keys have then just been fetched.
	issuerPerSecond = 1
	issuerBurst     = 10
	// exchangesPerSecond and exchangeBurst limit the exchanges of codes at an issuer.
	exchangesPerSecond = 20
	exchangeBurst      = 100
	// keysFor is how long keys are cached: an issuer's withdrawal of a key takes effect after it.
	keysFor = time.Hour
	// shortestRetry and longestRetry are the limits of the backoff after a failed discovery.
	shortestRetry = time.Second
	longestRetry  = time.Minute
	// unsignedFor is how long an invalid signature is cached: a key that the issuer has published since
	// takes effect after it.
	unsignedFor = 10 * time.Second
	maxUnsigned = 4096
	// signedFor is how long a valid signature is cached, unless the keys of the issuer change, and maxSigned bounds the
	// memory for such tokens.
	signedFor = 10 * time.Minute
	maxSigned = 2048
)

// keyAllowance limits how often unauthenticated requests cause the keys of issuers to be fetched.
var keyAllowance = allowance{address: rates{1, 10}, account: rates{2, 20}, total: rates{10, 50}}

// issuer caches the keys of an issuer.
type issuer struct {
	url    string
	clock  clock.PassiveClock
	client *http.Client
	// exchanges is the client for exchanges of codes, which have a limit of their own.
	exchanges *http.Client
	flight    singleflight.Group

	mu        sync.Mutex
	jwks      string // the URL of the keys
	endpoints Endpoints
	keys      []jose.JSONWebKey
	changes   int           // of the keys
	err       error         // of the last discovery
	next      time.Time     // of the next discovery
	pause     time.Duration // before it, while it fails
}

// issuer returns the issuer with a URL. Entries are never deleted: URLs come from Accounts, which
// administrators write.
func (a *OIDC) issuer(url string) *issuer {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.issuers[url]
	if !ok {
		i = &issuer{url: url, clock: a.clock, client: restricted(a.http, issuerPerSecond, issuerBurst), exchanges: restricted(a.http, exchangesPerSecond, exchangeBurst)}
		a.issuers[url] = i
	}
	return i
}

// current returns the keys of the issuer by its discovery document (OpenID Connect Discovery 1.0,
// section 4), which are fetched on first use and every hour. If that fails, the previous keys stay in
// use.
func (i *issuer) current(ctx context.Context) ([]jose.JSONWebKey, error) {
	i.mu.Lock()
	keys, err, wait := i.keys, i.err, i.clock.Now().Before(i.next)
	i.mu.Unlock()
	if wait && keys != nil {
		return keys, nil
	}
	if wait {
		return nil, err
	}
	return i.shared(ctx, "discovery", i.discover)
}

// version returns a number that changes with the keys that current returns.
func (i *issuer) version(ctx context.Context) (int, error) {
	if _, err := i.current(ctx); err != nil {
		return 0, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.changes, nil
}

// setKeys sets the keys. The caller holds mu.
func (i *issuer) setKeys(keys []jose.JSONWebKey) {
	if !reflect.DeepEqual(i.keys, keys) {
		i.changes++
	}
	i.keys = keys
}

// Endpoints are what an issuer publishes for sign-in (OpenID Connect Discovery 1.0, section 3; RFC 9207,
// section 3).
type Endpoints struct {
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Scopes        []string `json:"scopes_supported"`
	// SendsIssuer reports whether authorization responses have the parameter iss.
	SendsIssuer bool `json:"authorization_response_iss_parameter_supported"`
}

// Endpoints returns the endpoints of an issuer, and a client for requests to it.
func (a *OIDC) Endpoints(ctx context.Context, issuerURL string) (Endpoints, *http.Client, error) {
	i := a.issuer(issuerURL)
	if _, err := i.current(ctx); err != nil {
		return Endpoints{}, nil, fmt.Errorf("OIDC issuer %s: %w", issuerURL, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, endpoint := range []string{i.endpoints.Authorization, i.endpoints.Token} {
		if parsed, err := url.Parse(endpoint); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
			return Endpoints{}, nil, fmt.Errorf("OIDC issuer %s: its configuration has no https:// URLs as authorization_endpoint and token_endpoint", issuerURL)
		}
	}
	return i.endpoints, i.exchanges, nil
}

// refreshed returns the keys of the issuer after fetching them again.
func (i *issuer) refreshed(ctx context.Context) ([]jose.JSONWebKey, error) {
	return i.shared(ctx, "keys", func(ctx context.Context) ([]jose.JSONWebKey, error) {
		i.mu.Lock()
		url := i.jwks
		i.mu.Unlock()
		keys, err := i.fetch(ctx, url)
		if errors.Is(err, errRateLimited) {
			return nil, ErrBusy
		}
		if err != nil {
			return nil, fmt.Errorf("keys: %w", short(err))
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.setKeys(keys)
		return keys, nil
	})
}

// shared calls f once for concurrent requests, and not with the context of one of them.
func (i *issuer) shared(ctx context.Context, name string, f func(context.Context) ([]jose.JSONWebKey, error)) ([]jose.JSONWebKey, error) {
	done := i.flight.DoChan(name, func() (any, error) { return f(context.Background()) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-done:
		keys, _ := result.Val.([]jose.JSONWebKey)
		return keys, result.Err
	}
}

// discover fetches the discovery document and the keys.
func (i *issuer) discover(ctx context.Context) ([]jose.JSONWebKey, error) {
	var found struct {
		Endpoints
		JWKS string `json:"jwks_uri"`
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.url)
	if err == nil {
		err = provider.Claims(&found)
	}
	if err == nil && found.JWKS == "" {
		err = errors.New("the discovery document has no jwks_uri")
	}
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = i.fetch(ctx, found.JWKS)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		i.err = fmt.Errorf("discovery: %w", short(err))
		i.pause = min(max(2*i.pause, shortestRetry), longestRetry)
		i.next = i.clock.Now().Add(i.pause)
		if i.keys != nil {
			return i.keys, nil
		}
		return nil, i.err
	}
	i.jwks, i.endpoints, i.err, i.pause = found.JWKS, found.Endpoints, nil, 0
	i.setKeys(keys)
	i.next = i.clock.Now().Add(keysFor)
	return i.keys, nil
}

// fetch returns the keys at a URL (RFC 7517, section 5). Keys of unknown types are ignored. The result is
// not nil without error.
func (i *issuer) fetch(ctx context.Context, url string) ([]jose.JSONWebKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := i.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", url, response.StatusCode)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("%s: the key set is not JSON", url)
	}
	keys := make([]jose.JSONWebKey, 0, len(set.Keys))
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && key.IsPublic() {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// keySet is the key set of an issuer during the verification of one token.
type keySet struct {
	issuer *issuer
	// admit returns an error if the keys must not be fetched again for this token.
	admit func() error
	// fault is the reason if the signature could not be checked.
	fault error
}

var errSignature = errors.New("the signature is invalid")

// VerifySignature implements oidc.KeySet. If no key verifies the token, it fetches the keys again
// (OpenID Connect Core 1.0, section 10.1.1).
func (s *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	signed, err := jose.ParseSigned(jwt, signatureAlgorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errSignature
	}
	keys, err := s.issuer.current(ctx)
	if err != nil {
		s.fault = err
		return nil, err
	}
	if payload, ok := verifyWith(keys, signed); ok {
		return payload, nil
	}
	if s.fault = s.admit(); s.fault != nil {
		return nil, s.fault
	}
	if keys, s.fault = s.issuer.refreshed(ctx); s.fault != nil {
		return nil, s.fault
	}
	if payload, ok := verifyWith(keys, signed); ok {
		return payload, nil
	}
	return nil, errSignature
}

// verifyWith returns the payload of a token that one of the keys verifies.
func verifyWith(keys []jose.JSONWebKey, signed *jose.JSONWebSignature) ([]byte, bool) {
	id := signed.Signatures[0].Header.KeyID
	for i := range keys {
		if id != "" && keys[i].KeyID != id {
			continue
		}
		if payload, err := signed.Verify(&keys[i]); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// short truncates the text of an error of the OIDC library, which may contain a whole response.
func short(err error) error {
	text := err.Error()
	return errors.New(text[:min(len(text), 500)])
}

// restricted returns a copy of a client with a timeout, a maximum response size and a rate limit that
// requests https URLs only.
func restricted(base *http.Client, perSecond rate.Limit, burst int) *http.Client {
	c := http.Client{}
	if base != nil {
		c = *base
	}
	if c.Timeout == 0 {
		c.Timeout = issuerTimeout
	}
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = &bounded{next: c.Transport, limiter: rate.NewLimiter(perSecond, burst)}
	return &c
}

var errRateLimited = errors.New("too many requests to the issuer")

type bounded struct {
	next    http.RoundTripper
	limiter *rate.Limiter
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is not https", r.URL.Redacted())
	}
	if !b.limiter.Allow() {
		return nil, errRateLimited
	}
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, issuerBody)
	return response, nil
}
