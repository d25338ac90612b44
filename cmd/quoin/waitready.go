package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// attemptTimeout bounds one attempt to reach a server.
	attemptTimeout = 5 * time.Second
	// attemptInterval is the time between attempts.
	attemptInterval = time.Second
)

type waitReadyFlags struct {
	https, sql []string // addresses, host:port
	timeout    time.Duration
}

// waitReady runs `quoin wait-ready`, the start-up check of the Helm chart: a Service responds when one of its
// pods is ready.
func waitReady(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f, err := parseWaitReadyFlags(args, stderr)
	if err != nil {
		return exitCode(err)
	}
	if err := f.wait(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "quoin wait-ready:", err)
		return 1
	}
	return 0
}

func parseWaitReadyFlags(args []string, stderr io.Writer) (*waitReadyFlags, error) {
	f := &waitReadyFlags{}
	fs := newFlagSet("quoin wait-ready", stderr)
	fs.Func("https", "`addresses` of servers with HTTPS, host:port, separated by commas", addresses(&f.https))
	fs.Func("sql", "`addresses` of servers with PostgreSQL over TLS, host:port, separated by commas", addresses(&f.sql))
	fs.DurationVar(&f.timeout, "timeout", 2*time.Minute, "maximum `duration` to wait for all servers")
	return f, parse(fs, args, func() string {
		switch {
		case len(f.https)+len(f.sql) == 0:
			return "--https or --sql is required"
		case f.timeout <= 0:
			return fmt.Sprintf("--timeout is %s, must be more than 0", f.timeout)
		}
		return ""
	})
}

// addresses parses a list of addresses.
func addresses(to *[]string) func(string) error {
	return func(list string) error {
		for address := range strings.SplitSeq(list, ",") {
			host, port, err := net.SplitHostPort(address)
			if err != nil || host == "" || port == "" {
				return fmt.Errorf("%q is not host:port", address)
			}
			*to = append(*to, address)
		}
		return nil
	}
}

// wait waits for all servers at the same time. The error names those that did not respond, and why.
func (f *waitReadyFlags) wait(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	type server struct {
		address string
		respond func(ctx context.Context, address string) error
	}
	var servers []server
	for _, address := range f.https {
		servers = append(servers, server{address, respondHTTPS})
	}
	for _, address := range f.sql {
		servers = append(servers, server{address, respondSQL})
	}
	failures := make([]error, len(servers))
	var (
		group  sync.WaitGroup
		output sync.Mutex
	)
	for i, s := range servers {
		group.Go(func() {
			if err := retry(ctx, func(ctx context.Context) error { return s.respond(ctx, s.address) }); err != nil {
				failures[i] = fmt.Errorf("%s is not ready after %s: %w", s.address, f.timeout, err)
				return
			}
			output.Lock()
			defer output.Unlock()
			fmt.Fprintln(stdout, s.address, "is ready")
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// retry calls attempt until it succeeds or the context ends, and returns the last error of an attempt.
func retry(ctx context.Context, attempt func(context.Context) error) error {
	var last error
	for {
		bounded, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := attempt(bounded)
		cancel()
		// An attempt that the end interrupts says less than the one before it.
		if err == nil || last == nil || ctx.Err() == nil {
			last = err
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(attemptInterval):
		}
	}
}

// anyCertificate connects without verification: the certificates are for the hosts of accounts and
// deployments, not for the Services, and nothing confidential is sent.
func anyCertificate(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, MinVersion: tls.VersionTLS12} //nolint:gosec // see above
}

// respondHTTPS succeeds if the server responds to a request, which it may reject.
func respondHTTPS(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: anyCertificate()}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("the server responds with status %d", response.StatusCode)
	}
	return nil
}

// respondSQL succeeds if the server completes a TLS handshake with the protocol of PostgreSQL.
func respondSQL(ctx context.Context, address string) error {
	dialer := &tls.Dialer{Config: anyCertificate("postgresql")}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}
