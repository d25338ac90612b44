package git

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	uploadPack   = "git-upload-pack"
	receivePack  = "git-receive-pack"
	infoRefsPath = "/info/refs"
	// headerTimeout limits the wait for the first byte of a response. A server
	// counts the objects of a pack before it sends any.
	headerTimeout = 2 * time.Minute
	// maxHeaderBytes bounds the header of a response.
	maxHeaderBytes = 64 << 10
	maxRedirects   = 5
	// userAgent begins with "git/", because Git hosts use it to recognize Git clients.
	userAgent = "git/quoin"
)

// errRedirect means that a redirect is not followed.
var errRedirect = errors.New("redirect refused")

// statusError is a response with an unexpected status.
type statusError int

// Error implements error.
func (e statusError) Error() string { return fmt.Sprintf("unexpected status %d", int(e)) }

// httpAuth adds credentials to a request.
type httpAuth func(*http.Request)

// httpConnection is git-upload-pack or git-receive-pack over HTTP: gitprotocol-http(5), "smart" clients.
type httpConnection struct {
	service   string
	client    *http.Client
	transport *http.Transport
	auth      httpAuth // nil is anonymous
	base      *url.URL // the repository, after redirects
}

// connectHTTP returns a connection that connects with its first request.
func (c *Client) connectHTTP(r remote, creds Credentials, service string) connection {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: c.options.Timeout}).DialContext
	t.TLSHandshakeTimeout = c.options.Timeout
	t.ResponseHeaderTimeout = headerTimeout
	t.MaxResponseHeaderBytes = maxHeaderBytes
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	// HTTP/2 buffers megabytes of a response that is not read.
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if len(creds.roots) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		roots.AppendCertsFromPEM(creds.roots)
		t.TLSClientConfig.RootCAs = roots
	}
	h := &httpConnection{service: service, transport: t, auth: creds.http, base: withoutSuffix(r.url, "/")}
	h.client = &http.Client{Transport: t, CheckRedirect: h.checkRedirect}
	return h
}

// checkRedirect allows redirects of the first request, as Git does, to the same scheme or from
// http to https. Another origin is not sent the credentials, and no objects.
func (h *httpConnection) checkRedirect(req *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	upgrade := from.Scheme == "http" && req.URL.Scheme == "https"
	if req.Method != http.MethodGet || len(via) > maxRedirects || req.URL.User != nil ||
		(from.Scheme != req.URL.Scheme && !upgrade) || !strings.HasSuffix(req.URL.Path, infoRefsPath) {
		return errRedirect
	}
	if from.Scheme != req.URL.Scheme || from.Host != req.URL.Host {
		if h.service == receivePack {
			return errRedirect
		}
		h.auth = nil
	}
	if h.auth == nil { // net/http copies the header of the first request
		req.Header.Del("Authorization")
	}
	return nil
}

// advertisement implements connection.
func (h *httpConnection) advertisement(ctx context.Context) (*packets, error) {
	address := withSuffix(h.base, infoRefsPath)
	address.RawQuery = "service=" + h.service
	resp, err := h.do(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	h.base = withoutSuffix(resp.Request.URL, infoRefsPath)
	p := newPackets(resp.Body, resp.Body, maxAdvertisement)
	// A page, or the file of a server without git-upload-pack, is not read as packets.
	if start, err := p.r.Peek(5); err == nil && !bytes.ContainsAny(start[4:], "#vE") {
		_ = resp.Body.Close()
		return nil, errNotGit
	}
	return p, nil
}

// send implements connection.
func (h *httpConnection) send(ctx context.Context, r *request, budget int) (*packets, error) {
	resp, err := h.do(ctx, http.MethodPost, withSuffix(h.base, "/"+h.service), r) //nolint:bodyclose // the packets close it
	if err != nil {
		return nil, err
	}
	return newPackets(resp.Body, resp.Body, budget), nil
}

// withSuffix returns the URL with text added to its path. Unlike JoinPath it keeps the path as
// it is written.
func withSuffix(u *url.URL, suffix string) *url.URL {
	longer := *u
	longer.Path += suffix
	if longer.RawPath != "" {
		longer.RawPath += suffix
	}
	return &longer
}

// withoutSuffix returns the URL without a suffix of its path, and without a query.
func withoutSuffix(u *url.URL, suffix string) *url.URL {
	shorter := *u
	shorter.RawQuery = ""
	shorter.Path = strings.TrimSuffix(shorter.Path, suffix)
	shorter.RawPath = strings.TrimSuffix(shorter.RawPath, suffix)
	return &shorter
}

func (h *httpConnection) do(ctx context.Context, method string, address *url.URL, body *request) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		content = &body.Buffer
	}
	req, err := http.NewRequestWithContext(ctx, method, address.String(), content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	if h.service == uploadPack {
		req.Header.Set("Git-Protocol", protocolVersion)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-"+h.service+"-request")
		req.Header.Set("Accept", "application/x-"+h.service+"-result")
	}
	if h.auth != nil {
		h.auth(req)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // a server's text is neither stable nor shown
		return nil, statusError(resp.StatusCode)
	}
	return resp, nil
}

// close implements connection.
func (h *httpConnection) close() { h.transport.CloseIdleConnections() }
