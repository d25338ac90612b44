package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

const (
	// issuerTimeout is the timeout of a request to an issuer.
	issuerTimeout = 10 * time.Second
	// issuerBody is the maximum size of a response in bytes.
	issuerBody = 1 << 20
	// issuerPerSecond and issuerBurst limit requests to an issuer: each token with an unknown key id,
	// which unauthenticated callers can invent, fetches the keys again.
	issuerPerSecond = 1
	issuerBurst     = 5
	// keysFor is how long keys are cached: an issuer's withdrawal of a key takes effect after it.
	keysFor = time.Hour
	// shortestRetry and longestRetry are the limits of the backoff after a failed discovery.
	shortestRetry = time.Second
	longestRetry  = time.Minute
)

// issuer caches the keys of an issuer.
type issuer struct {
	url    string
	clock  clock.PassiveClock
	client *http.Client
	flight singleflight.Group

	mu    sync.Mutex
	keys  oidc.KeySet
	err   error         // of the last discovery
	next  time.Time     // of the next discovery
	pause time.Duration // before it, while it fails
}

// issuer returns the issuer with a URL. Entries are never deleted: URLs come from Accounts, which
// administrators write.
func (a *OIDC) issuer(url string) *issuer {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.issuers[url]
	if !ok {
		i = &issuer{url: url, clock: a.clock, client: restricted(a.http)}
		a.issuers[url] = i
	}
	return i
}

// keySet returns the key set of the issuer's discovery document (OpenID Connect Discovery 1.0, section
// 4), which is fetched on first use and every hour. If that fails, the previous key set stays in use.
func (i *issuer) keySet(ctx context.Context) (oidc.KeySet, error) {
	i.mu.Lock()
	keys, err, wait := i.keys, i.err, i.clock.Now().Before(i.next)
	i.mu.Unlock()
	if wait && keys != nil {
		return keys, nil
	}
	if wait {
		return nil, err
	}
	// Not with the request's context: other requests wait for the same result.
	done := i.flight.DoChan("", func() (any, error) {
		return i.discover(oidc.ClientContext(context.Background(), i.client))
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-done:
		found, _ := result.Val.(oidc.KeySet)
		return found, result.Err
	}
}

func (i *issuer) discover(ctx context.Context) (oidc.KeySet, error) {
	var found struct {
		JWKS string `json:"jwks_uri"`
	}
	provider, err := oidc.NewProvider(ctx, i.url)
	if err == nil {
		err = provider.Claims(&found)
	}
	if err == nil && found.JWKS == "" {
		err = errors.New("the discovery document has no jwks_uri")
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
	i.keys, i.err, i.pause = oidc.NewRemoteKeySet(ctx, found.JWKS), nil, 0
	i.next = i.clock.Now().Add(keysFor)
	return i.keys, nil
}

// short truncates the text of an error of the OIDC library, which may contain a whole response.
func short(err error) error {
	text := err.Error()
	return errors.New(text[:min(len(text), 500)])
}

// restricted returns a copy of a client with a timeout, a maximum response size and a rate limit that
// requests https URLs only.
func restricted(base *http.Client) *http.Client {
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
	c.Transport = &bounded{next: c.Transport, limiter: rate.NewLimiter(issuerPerSecond, issuerBurst)}
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
