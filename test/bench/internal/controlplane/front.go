package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// SystemNamespace is Quoin's own.
const SystemNamespace = "quoin-system"

// Front is `quoin apiserver`.
type Front struct {
	*process.Process
	// URL is where it is, HTTP trusts its certificate.
	URL     string
	HTTP    *http.Client
	metrics string
}

// StartFront starts one as it is by default, but for limits that nobody shall meet here. What it is
// asked once tells whether it answers.
func (s *APIServer) StartFront(ctx context.Context, quoin string, ask func(*Front) error) (*Front, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := s.Start(ctx, "apiserver", quoin, "apiserver", "--kubeconfig", s.Kubeconfig,
		"--bind-address", address, "--metrics-bind-address", metrics, "--health-probe-bind-address=0", "--aggregation=false",
		"--requests-per-second=1000000", "--burst=1000000", "--log-level=warn", "--shutdown-delay=0s")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	f := &Front{
		Process: p, URL: "https://" + address, metrics: "http://" + metrics + "/metrics",
		HTTP: NewHTTPClient(&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}),
	}
	return f, process.Await(ctx, "the front end", 300, 100*time.Millisecond, func() error {
		secret := &corev1.Secret{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: SystemNamespace, Name: serving.SecretName}, secret); err != nil {
			return err
		}
		roots.AppendCertsFromPEM(secret.Data["ca.crt"])
		return ask(f)
	})
}

// Metric is one of the front end's that has no labels; 0 when it cannot be read.
func (f *Front) Metric(name string) float64 {
	response, err := http.Get(f.metrics)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return measure.Metric(string(text), name)
}
