package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

const (
	accountHost = "bench.example.com"
	deployment  = "sales"
	host        = deployment + ".data." + accountHost
	namespace   = "bench"
)

// world is a kube-apiserver, a backend, and its proxies.
type world struct {
	server *controlplane.APIServer
	// token is valid for the gateway.
	backendAddress, token string
	trust                 *tls.Config
	gateway, direct       *target
	// peers are the available ones.
	peers []*target
}

func newWorld(ctx context.Context, o options, server *controlplane.APIServer) (*world, error) {
	w := &world{server: server}
	measure.Progress("starting the backend and quoin gateway")
	backend, address, err := dataplane.StartBackend(ctx, server, dataplane.BackendCommand)
	if err != nil {
		return nil, err
	}
	w.backendAddress, w.direct = address, &target{name: nameDirect, address: address, process: backend}
	if err := w.createObjects(ctx); err != nil {
		return nil, err
	}
	return w, w.startGateway(ctx, o)
}

// createObjects creates an account with a deployment, as the controllers would, and a token.
func (w *world) createObjects(ctx context.Context) (err error) {
	if err := w.server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: accountHost, Namespace: namespace}},
	); err != nil {
		return err
	}
	d := dataplane.Deployment{Namespace: namespace, Name: deployment, Ports: map[string]string{engine.PortNameHTTP: w.backendAddress}}
	w.token, err = d.Create(ctx, w.server)
	return err
}

// startGateway starts the gateway with its defaults, but without effective rate limits.
func (w *world) startGateway(ctx context.Context, o options) error {
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	if err := w.createCertificate(); err != nil {
		return err
	}
	w.gateway = &target{name: nameGateway, address: address, trust: w.trust, accessLog: filepath.Join(w.server.Dir, "gateway.log")}
	w.gateway.launch = func() (*process.Process, error) {
		return dataplane.StartGateway(ctx, w.server, o.quoin, address, append(controlplane.Unlimited,
			"--tls-cert-file", w.certificateFile(), "--tls-key-file", w.keyFile(), "--sql-bind-address=0", "--max-in-flight=100000")...)
	}
	if err := w.gateway.start(); err != nil {
		return err
	}
	return w.awaitGateway(ctx)
}

// awaitGateway waits until the gateway serves a request.
func (w *world) awaitGateway(ctx context.Context) error {
	return process.Await(ctx, "the gateway", 300, 100*time.Millisecond, func() error {
		return w.gateway.try(w.request(dataplane.PathSmall), dataplane.BytesSmall)
	})
}

// createCertificate creates the certificate that all proxies use, and trusts it.
func (w *world) createCertificate() error {
	certificate, key, err := selfSigned(host)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	w.trust = &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	return errors.Join(os.WriteFile(w.certificateFile(), certificate, 0o600), os.WriteFile(w.keyFile(), key, 0o600))
}

func (w *world) certificateFile() string { return filepath.Join(w.server.Dir, "tls.crt") }
func (w *world) keyFile() string         { return filepath.Join(w.server.Dir, "tls.key") }

// proxies are the gateway and its peers; targets include the backend.
func (w *world) proxies() []*target { return append([]*target{w.gateway}, w.peers...) }
func (w *world) targets() []*target { return append(w.proxies(), w.direct) }

// describe describes the setup.
func (w *world) describe() string {
	text := "HTTP/1.1 over TLS 1.3, keep-alive; access logs on; the gateway checks a token (HS256); backend: net/http without TLS"
	for _, t := range w.peers {
		text += "; " + t.name + " " + t.version
	}
	return text
}
