package dataplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// StartGateway starts `quoin gateway` with its defaults, except for the given flags.
func StartGateway(ctx context.Context, server *controlplane.APIServer, quoin, address string, flags ...string) (*process.Process, error) {
	return server.Start(ctx, "gateway", quoin, append([]string{"gateway", "--kubeconfig", server.Kubeconfig, "--bind-address", address,
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--shutdown-delay=0s", "--drain-timeout=1s"}, flags...)...)
}

// AwaitCertificate waits until the gateway has generated a certificate, and try succeeds with a configuration that trusts
// it.
func AwaitCertificate(ctx context.Context, server *controlplane.APIServer, host string, try func(*tls.Config) error) error {
	secret := &corev1.Secret{}
	return process.Await(ctx, "the gateway", 300, 100*time.Millisecond, func() error {
		if err := server.Get(ctx, client.ObjectKey{Namespace: controlplane.SystemNamespace, Name: certificates.GatewaySecretName}, secret); err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(secret.Data["ca.crt"])
		return try(&tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}})
	})
}
