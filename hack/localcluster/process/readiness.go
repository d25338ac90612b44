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

// Probe reports whether a component is ready; the error says why it is not.
type Probe func(ctx context.Context) error

// WaitReady polls until the component is ready, it ends, or the deadline has
// passed. A failure carries the end of its log, which is where the reason is.
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
			return fmt.Errorf("%s ended; the end of %s:\n%s", name, logPath, Tail(logPath, 20))
		case <-timeout:
			return fmt.Errorf("%s is not ready after %s: %w; the end of %s:\n%s", name, deadline, err, logPath, Tail(logPath, 20))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// HTTPProbe is ready when url answers 200.
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
			return fmt.Errorf("%s answered %s: %s", url, response.Status, LastLines(string(body), 5))
		}
		return nil
	}
}

// ProbeClient trusts the cluster's own certificate authority and never uses a
// proxy: all it asks is on this machine.
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

// Tail returns the last lines of a file, or the reason why it cannot.
func Tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return LastLines(string(text), lines)
}

func LastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
