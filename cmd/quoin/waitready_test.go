package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestWaitReadyInvalidUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no server":  {nil, "--https or --sql is required"},
		"no port":    {[]string{"--https=quoin-apiserver"}, `"quoin-apiserver" is not host:port`},
		"no host":    {[]string{"--sql=:5432"}, `":5432" is not host:port`},
		"a URL":      {[]string{"--https=https://quoin-apiserver:443"}, "is not host:port"},
		"no timeout": {[]string{"--https=a:1", "--timeout=0s"}, "--timeout is 0s, must be more than 0"},
		"argument":   {[]string{"--https=a:1", "b:2"}, `unexpected argument "b:2"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := waitReady(t.Context(), c.args, io.Discard, &stderr); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			if !strings.Contains(stderr.String(), c.want) {
				t.Errorf("stderr does not contain %q:\n%s", c.want, stderr.String())
			}
		})
	}
}

// httpsServer starts a server whose responses have the statuses in turn, then the last one.
func httpsServer(t *testing.T, statuses ...int) string {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(statuses[min(int(requests.Add(1)), len(statuses))-1])
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// sqlServer starts a server that completes TLS handshakes with a protocol.
func sqlServer(t *testing.T, protocol string) string {
	t.Helper()
	https := httptest.NewUnstartedServer(nil)
	https.StartTLS()
	config := &tls.Config{Certificates: https.TLS.Certificates, NextProtos: []string{protocol}}
	https.Close()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = tls.Server(connection, config).HandshakeContext(context.Background())
			_ = connection.Close()
		}
	}()
	return listener.Addr().String()
}

// closedAddress returns an address at which nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// A server is ready when it responds, also if it rejects the request; a failing one is asked again.
func TestWaitReadySucceeds(t *testing.T) {
	rejecting, recovering, sql := httpsServer(t, http.StatusUnauthorized), httpsServer(t, http.StatusServiceUnavailable, http.StatusNotFound), sqlServer(t, "postgresql")
	var stdout, stderr bytes.Buffer
	if code := waitReady(t.Context(), []string{"--https=" + rejecting + "," + recovering, "--sql=" + sql}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, address := range []string{rejecting, recovering, sql} {
		if !strings.Contains(stdout.String(), address+" is ready\n") {
			t.Errorf("stdout does not name %s:\n%s", address, stdout.String())
		}
	}
}

// The error names each server that did not respond, with the cause, and no others.
func TestWaitReadyFails(t *testing.T) {
	ready, failing, closed, other := httpsServer(t, http.StatusOK), httpsServer(t, http.StatusBadGateway), closedAddress(t), sqlServer(t, "http/1.1")
	var stderr bytes.Buffer
	begin := time.Now()
	args := []string{"--https=" + ready + "," + failing + "," + closed, "--sql=" + other, "--timeout=1500ms"}
	if code := waitReady(t.Context(), args, io.Discard, &stderr); code != 1 {
		t.Fatalf("exit code %d, want 1", code)
	}
	if took := time.Since(begin); took > attemptTimeout {
		t.Errorf("took %s", took)
	}
	for _, want := range []string{
		failing + " is not ready after 1.5s: the server responds with status 502", closed + " is not ready after 1.5s: ", "connection refused", other + " is not ready after 1.5s: ", "application protocol",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr does not contain %q:\n%s", want, stderr.String())
		}
	}
	if strings.Contains(stderr.String(), ready) {
		t.Errorf("stderr names a server that is ready:\n%s", stderr.String())
	}
}
