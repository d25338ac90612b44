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

	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// SystemNamespace is the namespace of Quoin itself.
const SystemNamespace = "quoin-system"

// Unlimited are the flags of `quoin apiserver` and `quoin gateway` for no effective rate limits.
var Unlimited = []string{"--requests-per-second=1000000", "--burst=1000000"}

// Quoin is a `quoin apiserver` process.
type Quoin struct {
	*process.Process
	// URL is its address. HTTP trusts its certificate.
	URL     string
	HTTP    *http.Client
	metrics string
}

// StartQuoin starts `quoin apiserver` with its defaults, except for the given flags. It is ready when check succeeds.
func (s *APIServer) StartQuoin(ctx context.Context, quoin string, flags []string, check func(*Quoin) error) (*Quoin, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := s.Start(ctx, "apiserver", quoin, append([]string{"apiserver", "--kubeconfig", s.Kubeconfig,
		"--bind-address", address, "--metrics-bind-address", metrics, "--health-probe-bind-address=0",
		"--log-level=warn", "--shutdown-delay=0s"}, flags...)...)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	q := &Quoin{
		Process: p, URL: "https://" + address, metrics: "http://" + metrics + "/metrics",
		HTTP: NewHTTPClient(&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}),
	}
	return q, process.Await(ctx, "quoin apiserver", 300, 100*time.Millisecond, func() error {
		secret := &corev1.Secret{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: SystemNamespace, Name: certificates.SecretName}, secret); err != nil {
			return err
		}
		roots.AppendCertsFromPEM(secret.Data["ca.crt"])
		return check(q)
	})
}

// Metric returns the value of a metric without labels, or 0 if it cannot be read.
func (q *Quoin) Metric(name string) float64 {
	response, err := http.Get(q.metrics)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return measure.Metric(string(text), name)
}
