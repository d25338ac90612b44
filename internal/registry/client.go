package registry

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	// DefaultUserAgent is sent where Options.UserAgent is empty.
	DefaultUserAgent = "quoin-controller"
	// DefaultTimeout limits one request, not a call, where Options.Timeout is zero.
	DefaultTimeout = 30 * time.Second
)

// Options configure a Client; the zero value reads public registries.
type Options struct {
	// Keychain returns the credentials for a registry; nil means anonymous.
	// ParseDockerConfig returns the keychain of a pull secret.
	Keychain authn.Keychain
	// CABundle holds PEM certificates to trust in addition to the system's.
	CABundle []byte
	// PlainHTTP allows http:// for registries that do not serve https://. Without
	// it, credentials are never sent unencrypted.
	PlainHTTP bool
	// Timeout limits each request, including reading its response.
	Timeout time.Duration
	// UserAgent is sent with every request.
	UserAgent string
	// Transport replaces the default one; it excludes CABundle.
	Transport http.RoundTripper
}

// Client reads repositories. Its only state is its connections. It is safe for
// concurrent use. It does not retry: callers have their own backoff.
type Client struct {
	keychain  authn.Keychain
	plainHTTP bool
	timeout   time.Duration
	userAgent string
	transport http.RoundTripper
}

// New returns a Client. The error wraps ErrInvalidConfig.
func New(o Options) (*Client, error) {
	c := &Client{
		keychain:  o.Keychain,
		plainHTTP: o.PlainHTTP,
		timeout:   o.Timeout,
		userAgent: o.UserAgent,
		transport: o.Transport,
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.userAgent == "" {
		c.userAgent = DefaultUserAgent
	}
	if c.keychain == nil {
		c.keychain = authn.NewMultiKeychain() // resolves everything to anonymous
	}
	if c.transport != nil {
		if len(o.CABundle) > 0 {
			return nil, invalidConfig("a transport and a CA bundle exclude each other")
		}
		return c, nil
	}
	t, err := newTransport(o.CABundle)
	if err != nil {
		return nil, err
	}
	c.transport = t
	return c, nil
}

// CloseIdleConnections closes the idle connections of a Client that is no
// longer used.
func (c *Client) CloseIdleConnections() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// session is an authenticated client of one repository.
type session struct {
	host, path string
	base       url.URL
	meter      *meter
	http       *http.Client
}

// open discovers how the registry authenticates and requests a token if it
// needs one. Source: OCI Distribution Specification, and Docker Registry v2
// authentication ("Token Authentication Specification").
func (c *Client) open(ctx context.Context, repository string) (*session, error) {
	repo, err := ParseRepository(repository)
	if err != nil {
		return nil, err
	}
	target, err := repo.remoteName(c.plainHTTP)
	if err != nil {
		return nil, err
	}
	s := &session{
		host:  repo.Host,
		path:  repo.Path,
		base:  url.URL{Scheme: "https", Host: target.RegistryStr(), Path: "/v2/" + repo.Path},
		meter: &meter{inner: c.transport, userAgent: c.userAgent, timeout: c.timeout, plainHTTP: c.plainHTTP},
	}
	rt, err := c.authenticate(ctx, target, s.meter)
	if err != nil {
		return nil, s.openError(ctx, err)
	}
	s.http = &http.Client{Transport: rt, CheckRedirect: checkRedirect}
	return s, nil
}

func (c *Client) authenticate(ctx context.Context, repo name.Repository, base http.RoundTripper) (http.RoundTripper, error) {
	auth, err := authn.Resolve(ctx, c.keychain, repo)
	if err != nil {
		return nil, err
	}
	return transport.NewWithContext(ctx, repo.Registry, auth, base, []string{repo.Scope(transport.PullScope)})
}

// do sends a request. The caller must close the body.
func (s *session) do(ctx context.Context, method, address string, accept []string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, s.protocolError("address is not a URL")
	}
	for _, a := range accept {
		req.Header.Add("Accept", a)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, s.transportError(ctx, err)
	}
	return resp, nil
}

// address returns the URL of a resource of the repository: "tags", "list".
func (s *session) address(parts ...string) string {
	return s.base.JoinPath(parts...).String()
}

// discard drains a small response, so that its connection is reused.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}
