package git

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

const (
	// maxAdvertisement bounds the list of refs, bytes. Protocol version 0 sends
	// all refs, tags and pull requests too: some 100 bytes each.
	maxAdvertisement = 64 << 20
	// maxErrorBody bounds the body of an error response, bytes.
	maxErrorBody = 64 << 10
	// headerTimeout limits the wait for the first byte of a response. A server
	// counts the objects of a pack before it sends any.
	headerTimeout = 2 * time.Minute
)

var errAdvertisement = errors.New("list of refs too large")

// httpSession closes its idle connections on Close.
type httpSession struct {
	transport.UploadPackSession
	transport *http.Transport
}

// Close implements uploadPack.
func (s httpSession) Close() error {
	defer s.transport.CloseIdleConnections()
	return s.UploadPackSession.Close()
}

// connectHTTP returns a session that connects with its first request. go-git
// drops the credentials on a redirect to another host, and rejects a redirect
// from https to http.
func (c *Client) connectHTTP(endpoint *transport.Endpoint, creds Credentials) (uploadPack, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: c.options.Timeout}).DialContext
	t.TLSHandshakeTimeout = c.options.Timeout
	t.ResponseHeaderTimeout = headerTimeout
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if len(creds.roots) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		roots.AppendCertsFromPEM(creds.roots)
		t.TLSClientConfig.RootCAs = roots
	}
	client := githttp.NewClient(&http.Client{Transport: bounded{t}})
	var auth transport.AuthMethod
	if creds.http != nil {
		auth = creds.http
	}
	s, err := client.NewUploadPackSession(endpoint, auth)
	if err != nil {
		return nil, err
	}
	return httpSession{UploadPackSession: s, transport: t}, nil
}

// bounded limits the responses that are read into memory: refs and errors.
// Packs are written to a file and limited there.
type bounded struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode >= http.StatusMultipleChoices:
		resp.Body = &limitedBody{resp.Body, io.LimitedReader{R: resp.Body, N: maxErrorBody}, io.EOF}
	case req.Method == http.MethodGet:
		resp.Body = &limitedBody{resp.Body, io.LimitedReader{R: resp.Body, N: maxAdvertisement}, errAdvertisement}
	}
	return resp, nil
}

type limitedBody struct {
	io.Closer
	limited io.LimitedReader
	over    error
}

// Read implements io.Reader; beyond the limit it returns over.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.limited.N <= 0 {
		return 0, b.over
	}
	return b.limited.Read(p)
}
