package registry

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
)

func TestStatusErrors(t *testing.T) {
	const secret = "hunter2-do-not-print"
	tests := map[string]struct {
		status int
		is     error
		text   string
	}{
		"401": {http.StatusUnauthorized, ErrUnauthorized, "repository demo/cube: unauthorized"},
		"403": {http.StatusForbidden, ErrUnauthorized, "repository demo/cube: access denied"},
		"404": {http.StatusNotFound, ErrNotFound, "repository demo/cube: not found"},
		"429": {http.StatusTooManyRequests, ErrThrottled, "repository demo/cube: too many requests"},
		"500": {http.StatusInternalServerError, ErrUnreachable, "registry %s: unexpected status 500"},
		"503": {http.StatusServiceUnavailable, ErrUnreachable, "registry %s: unexpected status 503"},
		"418": {http.StatusTeapot, ErrUnreachable, "registry %s: unexpected status 418"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, `{"errors":[{"code":"X","message":"`+secret+`"}]}`, tt.status)
			})
			_, err := newTestClient(t, Options{PlainHTTP: true}).Tags(t.Context(), host+"/demo/cube")
			if !errors.Is(err, tt.is) {
				t.Fatalf("error %v, want %v", err, tt.is)
			}
			if want := strings.ReplaceAll(tt.text, "%s", host); err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
		})
	}
}

func TestPingErrors(t *testing.T) {
	tests := map[string]struct {
		status int
		is     error
		text   string
	}{
		"404": {http.StatusNotFound, ErrUnreachable, "registry %s: no distribution API at this address"},
		"403": {http.StatusForbidden, ErrUnauthorized, "repository demo/cube: access denied"},
		"429": {http.StatusTooManyRequests, ErrThrottled, "repository demo/cube: too many requests"},
		"502": {http.StatusBadGateway, ErrUnreachable, "registry %s: unexpected status 502"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
			}))
			t.Cleanup(server.Close)
			host := strings.TrimPrefix(server.URL, "http://")
			_, err := newTestClient(t, Options{PlainHTTP: true}).Tags(t.Context(), host+"/demo/cube")
			if !errors.Is(err, tt.is) {
				t.Fatalf("error %v, want %v", err, tt.is)
			}
			if want := strings.ReplaceAll(tt.text, "%s", host); err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	tests := map[string]struct {
		header    string
		low, high time.Duration
	}{
		"none":    {"", 0, 0},
		"seconds": {"17", 17 * time.Second, 17 * time.Second},
		"date":    {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
		"past":    {time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
		"bounded": {"99999999999", time.Hour, time.Hour},
		"minus":   {"-5", 0, 0},
		"words":   {"tomorrow", 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			_, err := newTestClient(t, Options{PlainHTTP: true}).Tags(t.Context(), host+"/demo/cube")
			if got := RetryAfter(err); got < tt.low || got > tt.high {
				t.Errorf("RetryAfter %v, want %v to %v", got, tt.low, tt.high)
			}
		})
	}
	if got := RetryAfter(errors.New("other")); got != 0 {
		t.Errorf("RetryAfter of another error is %v", got)
	}
}

// closedPort returns an unused loopback address.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestNetworkErrors(t *testing.T) {
	trusted, _ := serveTLS(t)
	closed := closedPort(t)
	tests := map[string]struct {
		host, text string
		options    Options
	}{
		"refused":           {closed, "registry " + closed + ": connection refused", Options{}},
		"refused, HTTP":     {closed, "registry " + closed + ": connection refused", Options{PlainHTTP: true}},
		"unknown authority": {trusted, "registry " + trusted + ": certificate signed by unknown authority", Options{}},
		"no such host":      {"registry.invalid", "registry registry.invalid: ", Options{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newTestClient(t, tt.options).Tags(t.Context(), tt.host+"/demo/cube")
			if !errors.Is(err, ErrUnreachable) {
				t.Fatalf("error %v, want ErrUnreachable", err)
			}
			if !strings.HasPrefix(err.Error(), tt.text) {
				t.Errorf("error %q, want %q", err, tt.text)
			}
		})
	}
}

// TestErrorsAreStable fails twice: a condition must not change with the
// ephemeral port of a connection.
func TestErrorsAreStable(t *testing.T) {
	host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	c := newTestClient(t, Options{PlainHTTP: true})
	_, first := c.Tags(t.Context(), host+"/demo/cube")
	_, second := c.Tags(t.Context(), host+"/demo/cube")
	if first == nil || first.Error() != second.Error() {
		t.Errorf("first %v, second %v", first, second)
	}
	if want := "registry " + host + ": connection closed"; first.Error() != want {
		t.Errorf("error %q, want %q", first, want)
	}
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	tests := map[string]Options{
		"bundle":               {CABundle: []byte("not a certificate")},
		"bundle and transport": {CABundle: selfSigned(t), Transport: http.DefaultTransport},
	}
	for name, options := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := New(options); !errors.Is(err, ErrInvalidConfig) {
				t.Errorf("error %v, want ErrInvalidConfig", err)
			}
		})
	}
}

func selfSigned(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestTokenServer uses token authentication with a right and a wrong password.
func TestTokenServer(t *testing.T) {
	const password = "hunter2-do-not-print"
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			if _, got, _ := r.BasicAuth(); got != password {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = w.Write([]byte(`{"token":"t0ken","scope":"` + r.URL.Query().Get("scope") + `"}`))
		case r.Header.Get("Authorization") != "Bearer t0ken":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+server.URL+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(`{"tags":["a"]}`))
		}
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")

	right := newTestClient(t, Options{PlainHTTP: true, Keychain: keychain{
		{host: host, auth: authn.AuthConfig{Username: "u", Password: password}},
	}})
	if tags, err := right.Tags(t.Context(), host+"/demo/cube"); err != nil || len(tags) != 1 {
		t.Errorf("with the right password: %v, %v", tags, err)
	}
	wrong := newTestClient(t, Options{PlainHTTP: true, Keychain: keychain{
		{host: host, auth: authn.AuthConfig{Username: "u", Password: password + "x"}},
	}})
	_, err := wrong.Tags(t.Context(), host+"/demo/cube")
	if !errors.Is(err, ErrUnauthorized) {
		t.Fatalf("error %v, want ErrUnauthorized", err)
	}
	if want := "repository demo/cube: unauthorized"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}
