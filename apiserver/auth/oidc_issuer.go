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
	// issuerTimeout bounds one request to an issuer.
	issuerTimeout = 10 * time.Second
	// issuerBody bounds what is read of an answer, in bytes.
	issuerBody = 1 << 20
	// issuerPerSecond and issuerBurst bound requests to an issuer: each token with a key id
	// that is not known, which anybody can make up, asks for the keys again.
	issuerPerSecond = 1
	issuerBurst     = 5
	// keysFor is how long keys are kept: one that an issuer has withdrawn is of no use then.
	keysFor = time.Hour
	// shortestRetry and longestRetry bound the pause after an issuer could not be discovered.
	shortestRetry = time.Second
	longestRetry  = time.Minute
)

// issuer knows the keys of one issuer.
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

// issuer is the one at a URL. URLs come from Accounts, which administrators write: there are
// few, and they are kept.
func (a *OIDC) issuer(url string) *issuer {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.issuers[url]
	if !ok {
		i = &issuer{url: url, clock: a.clock, client: careful(a.http)}
		a.issuers[url] = i
	}
	return i
}

// keySet is where the issuer's keys are: from its discovery document (OpenID Connect
// Discovery 1.0, section 4), which is read when it is first needed and every hour. While it
// cannot be read the keys known before are in use.
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
	// Not on the request's context: others wait for the same answer.
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

// short cuts the text of an error of the OIDC library, which may hold a whole answer.
func short(err error) error {
	text := err.Error()
	return errors.New(text[:min(len(text), 500)])
}

// careful returns a copy of a client that is bounded in time, in size and in how often it
// asks, and speaks https only.
func careful(base *http.Client) *http.Client {
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

var errTooOften = errors.New("asked too often")

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
		return nil, errTooOften
	}
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, issuerBody)
	return response, nil
}
