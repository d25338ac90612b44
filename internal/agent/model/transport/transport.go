// Package transport connects to providers of language models, and classifies their failures. It knows the forms of errors that
// providers and servers of both protocols use, and no protocol.
//
//	transport.go   the HTTP client: certificate authorities, no redirects, responses of limited size
//	release.go     the body of a request is not kept while its answer is received
//	stream.go      a request as a stream of events of package model
//	events.go      the events of a response
//	failure.go     failures as *model.Error
package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/model"
)

const (
	// MaxStream is the maximum length of an answer in bytes, as it is sent.
	MaxStream = 16 << 20
	// maxError is how much of the body of a failure is read.
	maxError = 64 << 10
	// dialTimeout limits the time until a connection is made, and handshakeTimeout that until it is encrypted.
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// bufferSize is that of a connection for reading and for writing: an answer takes long, and its events are short.
	bufferSize = 1 << 10
	// idleTimeout is how long an unused connection is kept.
	idleTimeout = 30 * time.Second
)

// Options configure a client.
type Options struct {
	// CA has certificate authorities in PEM, which are trusted instead of those of the system. Those of the system if it is empty.
	CA []byte
	// Key is the secret of the requests. It is removed from messages of the provider.
	Key string
	// Base sends the requests, for tests; nil for connections.
	Base http.RoundTripper
}

// New returns a client whose errors are *model.Error, and whose successful responses are streams of events. It follows no redirect,
// because the request has a key.
func New(o Options) (*http.Client, error) {
	base := o.Base
	if base == nil {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if len(o.CA) > 0 {
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(o.CA) {
				return nil, errors.New("the certificate authorities have no certificate in PEM")
			}
		}
		base = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSClientConfig: config,
			TLSHandshakeTimeout: handshakeTimeout, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: idleTimeout, DisableCompression: true,
			ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		}
	}
	return &http.Client{
		Transport:     &transport{base: base, key: o.Key},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// transport returns failures as errors.
type transport struct {
	base http.RoundTripper
	key  string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent, release := released(request)
	response, err := t.base.RoundTrip(sent)
	release()
	if err != nil {
		return nil, Failure(request.Context(), err)
	}
	if response.StatusCode == http.StatusOK && isEventStream(response.Header.Get("Content-Type")) {
		response.Body = &limited{ReadCloser: response.Body, ctx: request.Context(), left: MaxStream}
		return response, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxError))
	if err != nil && len(body) == 0 {
		return nil, Failure(request.Context(), err)
	}
	return nil, ofResponse(response.StatusCode, response.Header, body, t.key)
}

func isEventStream(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && strings.EqualFold(kind, "text/event-stream")
}

// limited is the body of an answer.
type limited struct {
	io.ReadCloser
	ctx  context.Context
	left int
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= n; l.left < 0 {
		return 0, &model.Error{Kind: model.Malformed, Message: fmt.Sprintf("the answer of the model has more than %d bytes", MaxStream)}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = Failure(l.ctx, err)
	}
	return n, err
}
