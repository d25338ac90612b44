// Package apiclient sends HTTPS requests to `quoin apiserver` and reads the responses. It does not use Kubernetes.
package apiclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Timeout limits requests, and waiting for conditions without a deadline of their own.
const Timeout = 60 * time.Second

// Eventually calls try until it succeeds. It returns the last error after Timeout.
func Eventually(try func() error) error {
	deadline := time.Now().Add(Timeout)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Soon fails the test unless try succeeds eventually.
func Soon(t testing.TB, try func() error) {
	t.Helper()
	if err := Eventually(try); err != nil {
		t.Fatal(err)
	}
}

// Transport returns a transport that connects to an address for all hosts that are names, and trusts the roots. It calls
// address for each new connection. IP addresses are dialed as they are.
func Transport(roots *x509.CertPool, address func() string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, target string) (net.Conn, error) {
			if _, err := netip.ParseAddrPort(target); err != nil {
				target = address()
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", target)
		},
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 64,
	}
}

// Request is an HTTP request.
type Request struct {
	Method, URL string
	// Host replaces the Host header. The certificate is verified for the host of the URL.
	Host string
	// Authorization is the value of the header, which is not sent if it is empty.
	Authorization string
	// Body is a string to send as is, a value to encode as JSON, or nil.
	Body any
	// MediaType is the Content-Type of the body.
	MediaType string
	// Header has names and values of further headers, alternating. They replace the headers above.
	Header []string
}

// Response is a complete HTTP response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends the request. It returns an error if there is no complete response.
func (r Request) Send(ctx context.Context, client *http.Client) (*Response, error) {
	request, err := r.build(ctx)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return &Response{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

func (r Request) build(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		text, ok := r.Body.(string)
		if !ok {
			data, err := json.Marshal(r.Body)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		body = strings.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		return nil, err
	}
	if r.Host != "" {
		request.Host = r.Host
	}
	if r.Authorization != "" {
		request.Header.Set("Authorization", r.Authorization)
	}
	if r.Body != nil {
		request.Header.Set("Content-Type", r.MediaType)
	}
	for i := 0; i+1 < len(r.Header); i += 2 {
		request.Header.Set(r.Header[i], r.Header[i+1])
	}
	return request, nil
}

// Lookup returns a value in decoded JSON, and whether it exists. The path has names and indexes separated by dots, and
// URNs in brackets: "[urn:…].manager.value". The last part may be "length" of an array.
func Lookup(value any, path string) (result any, found bool) {
	for path != "" {
		var part string
		if rest, ok := strings.CutPrefix(path, "["); ok {
			part, path, _ = strings.Cut(rest, "]")
			path = strings.TrimPrefix(path, ".")
		} else {
			part, path, _ = strings.Cut(path, ".")
		}
		switch v := value.(type) {
		case map[string]any:
			if value, found = v[part]; !found {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			switch {
			case part == "length" && path == "":
				return float64(len(v)), true
			case err != nil || i < 0 || i >= len(v):
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}
