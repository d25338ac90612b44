package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

const (
	// maxBody bounds a response, bytes: a page of 10,000 tags of 128 characters
	// is 1.3 MB, a manifest at most 4 MiB.
	maxBody = 8 << 20

	maxRedirects  = 5
	maxRetryAfter = time.Hour
)

var (
	errTooLarge  = errors.New("response too large")
	errPlainHTTP = errors.New("plain HTTP")
	errRedirect  = errors.New("redirect to a private address")
)

// meter is the innermost transport of a call. It applies the timeout to every
// request, bounds every response, and records the Retry-After of the last 429,
// which the library drops. It rejects plain HTTP unless allowed: the library
// falls back to it for private addresses, which would send credentials
// unencrypted.
type meter struct {
	inner     http.RoundTripper
	userAgent string
	timeout   time.Duration
	plainHTTP bool

	mu    sync.Mutex
	retry time.Duration
}

// RoundTrip implements http.RoundTripper.
func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !m.plainHTTP {
		return nil, errPlainHTTP
	}
	ctx, cancel := context.WithTimeout(req.Context(), m.timeout)
	req = req.Clone(ctx)
	req.Header.Set("User-Agent", m.userAgent)
	resp, err := m.inner.RoundTrip(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		m.setRetryAfter(resp.Header.Get("Retry-After"))
	}
	resp.Body = &body{ReadCloser: resp.Body, left: maxBody, cancel: cancel}
	return resp, nil
}

// setRetryAfter parses the header's two forms, RFC 9110 section 10.2.3.
func (m *meter) setRetryAfter(value string) {
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retry = min(max(wait, 0), maxRetryAfter)
}

func (m *meter) retryAfter() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.retry
}

// body bounds a response and cancels its timeout on Close.
type body struct {
	io.ReadCloser
	left   int64
	cancel context.CancelFunc
}

// Read implements io.Reader; beyond the bound it returns errTooLarge.
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// checkRedirect allows redirects to other hosts, such as regional ones, but not
// to private addresses.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	host := req.URL.Hostname()
	if host == via[0].URL.Hostname() {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if err == nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()) {
		return errRedirect
	}
	return nil
}

// newTransport returns a transport that trusts the system's roots and those of
// the optional PEM bundle.
func newTransport(caBundle []byte) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if len(caBundle) == 0 {
		return t, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(caBundle) {
		return nil, invalidConfig("CA bundle holds no certificate in PEM form")
	}
	t.TLSClientConfig.RootCAs = roots
	return t, nil
}
