package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/process"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// Metered is a program of Quoin whose metrics the bench reads.
type Metered struct {
	*process.Process
	// Started is how long it took to be ready.
	Started    time.Duration
	url, token string
	client     *http.Client
}

// StartMetered starts a program of Quoin with addresses for metrics and health, and waits until it is ready.
func (s *APIServer) StartMetered(ctx context.Context, name, quoin string, args ...string) (*Metered, error) {
	metrics, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	health, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	token, err := s.metricsToken(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	p, err := s.Start(ctx, name, quoin, append([]string{name, "--kubeconfig", s.Kubeconfig, "--log-level=warn",
		"--metrics-bind-address", metrics, "--health-probe-bind-address", health}, args...)...)
	if err != nil {
		return nil, err
	}
	m := &Metered{
		Process: p, url: "https://" + metrics + "/metrics", token: token,
		client: NewHTTPClient(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}), // self-signed
	}
	err = process.Await(ctx, name, int(s.StartTimeout/awaitInterval), awaitInterval, func() error {
		_, err := m.get(ctx, "http://"+health+"/readyz")
		return err
	})
	m.Started = time.Since(began)
	if err != nil {
		return m, err
	}
	return m, process.Await(ctx, name, int(s.StartTimeout/awaitInterval), awaitInterval, func() error {
		_, err := m.Metrics(ctx)
		return err
	})
}

// Metrics returns the metrics in Prometheus' text format.
func (m *Metered) Metrics(ctx context.Context) (string, error) { return m.get(ctx, m.url) }

func (m *Metered) get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+m.token)
	response, err := m.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return "", fmt.Errorf("GET %s: %w", url, err)
	}
	return string(text), nil
}
