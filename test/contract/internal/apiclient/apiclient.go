// Package apiclient asks a front end as programs do, over HTTPS, and reads what it answers. It knows
// nothing of Kubernetes.
package apiclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Patience is how long something may take that has no deadline of its own.
const Patience = 60 * time.Second

// Eventually tries until there is no error, or until patience ends: then it returns the last one.
func Eventually(try func() error) error {
	deadline := time.Now().Add(Patience)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Soon fails the test unless there is no error eventually.
func Soon(t testing.TB, try func() error) {
	t.Helper()
	if err := Eventually(try); err != nil {
		t.Fatal(err)
	}
}

// Transport connects to an address, whichever host is asked for, and trusts the roots. The address
// is looked up for each new connection.
func Transport(roots *x509.CertPool, address func() string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address())
		},
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 64,
	}
}

// Request is what is sent.
type Request struct {
	Method, URL string
	// Host is sent instead of the URL's, whose name the certificate is checked for.
	Host string
	// Authorization is the value of that header, which is not sent when it is empty.
	Authorization string
	// Body is sent as it is when it is a string, not at all when it is nil, and else as JSON.
	Body any
	// MediaType is that of a body.
	MediaType string
	// Header are names and values of further headers, in turn; they replace those above.
	Header []string
}

// Answer is what came back, all of it.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends the request. The error is that nothing has answered, or not to the end.
func (r Request) Send(ctx context.Context, client *http.Client) (*Answer, error) {
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
	return &Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

func (r Request) build(ctx context.Context) (*http.Request, error) {
	var sent io.Reader
	if r.Body != nil {
		text, ok := r.Body.(string)
		if !ok {
			data, err := json.Marshal(r.Body)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		sent = strings.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, sent)
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

// Lookup finds a value in decoded JSON, and tells absence from null. The path is names and indexes
// separated by dots, a URN as a whole in brackets: "[urn:…].manager.value". The last part may be the
// length of an array.
func Lookup(value any, path string) (found any, there bool) {
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
			if value, there = v[part]; !there {
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
