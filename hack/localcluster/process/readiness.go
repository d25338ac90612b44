package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Probe returns nil if a component is ready, otherwise the reason.
type Probe func(ctx context.Context) error

// WaitReady polls until ready returns nil, ended is closed, or the timeout
// expires. Its error includes the end of the log.
func WaitReady(ctx context.Context, name, logPath string, ended <-chan struct{}, deadline time.Duration, ready Probe) error {
	timeout := time.After(deadline)
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ready(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return fmt.Errorf("%s exited; the end of %s:\n%s", name, logPath, Tail(logPath, 20))
		case <-timeout:
			return fmt.Errorf("%s is not ready after %s: %w; the end of %s:\n%s", name, deadline, err, logPath, Tail(logPath, 20))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// HTTPProbe returns a probe that succeeds if url returns status 200.
func HTTPProbe(client *http.Client, url string) Probe {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, 2048))
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s returned %s: %s", url, response.Status, LastLines(string(body), 5))
		}
		return nil
	}
}

// ProbeClient returns a client that trusts the cluster's CA and uses no proxy.
func ProbeClient(caFile string) (*http.Client, error) {
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in " + caFile)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}, nil
}

// Tail returns the last lines of a file, or the error of reading it.
func Tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return LastLines(string(text), lines)
}

// LastLines returns the last lines of text.
func LastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
