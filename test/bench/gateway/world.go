package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
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
	if err := w.startBackend(ctx); err != nil {
		return nil, err
	}
	if err := w.createObjects(ctx); err != nil {
		return nil, err
	}
	return w, w.startGateway(ctx, o)
}

func (w *world) startBackend(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	backend, address, err := process.StartListener("backend", exec.CommandContext(ctx, self, backendCommand))
	if err != nil {
		return err
	}
	w.server.Programs = append(w.server.Programs, backend)
	w.backendAddress, w.direct = address, &target{name: nameDirect, address: address, process: backend}
	return nil
}

// createObjects creates an account with a deployment, as the controllers would, and a token.
func (w *world) createObjects(ctx context.Context) error {
	ip, port, err := net.SplitHostPort(w.backendAddress)
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return err
	}
	const secret = "a secret that is long enough for HS256"
	if w.token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iat": time.Now().Unix(), "exp": time.Now().Add(24 * time.Hour).Unix(), "tenant": "acme",
	}).SignedString([]byte(secret)); err != nil {
		return err
	}
	environment := v1alpha1.ProductionName(deployment)
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	return w.server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: accountHost, Namespace: namespace}},
		&v1alpha1.Deployment{ObjectMeta: in(deployment), Spec: v1alpha1.DeploymentSpec{
			ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
		}},
		&v1alpha1.Environment{ObjectMeta: in(environment), Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: deployment}, Type: v1alpha1.EnvironmentProduction, Version: "1.0.0", Image: "cube:v1.0.0",
		}},
		&corev1.Secret{ObjectMeta: in(engine.CredentialsName(environment)), Data: map[string][]byte{engine.KeyAPISecret: []byte(secret)}},
		&corev1.Secret{ObjectMeta: in(engine.GatewayCredentialsName(environment)), Data: map[string][]byte{engine.KeyMetadata: []byte("another secret, for metadata tokens")}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "backend", Labels: map[string]string{
				discoveryv1.LabelServiceName: engine.APIName(environment),
				engine.LabelManagedBy:        engine.ManagedBy,
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(engine.PortNameHTTP), Port: ptr.To(int32(number))}},
		},
	)
}

// startGateway starts the gateway with its defaults, but without effective rate limits.
func (w *world) startGateway(ctx context.Context, o options) error {
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	if err := w.createCertificate(); err != nil {
		return err
	}
	w.gateway = &target{name: nameGateway, address: address, trust: w.trust, accessLog: filepath.Join(w.server.Dir, "gateway.log")}
	w.gateway.launch = func() (*process.Process, error) {
		return w.server.Start(ctx, "gateway", o.quoin, "gateway", "--kubeconfig", w.server.Kubeconfig, "--bind-address", address,
			"--sql-bind-address=0", "--metrics-bind-address=0", "--health-probe-bind-address=0",
			"--tls-cert-file", w.certificateFile(), "--tls-key-file", w.keyFile(),
			"--requests-per-second=1000000", "--burst=1000000", "--max-in-flight=100000", "--shutdown-delay=0s", "--drain-timeout=1s")
	}
	if err := w.gateway.start(); err != nil {
		return err
	}
	return w.awaitGateway(ctx)
}

// awaitGateway waits until the gateway serves a request.
func (w *world) awaitGateway(ctx context.Context) error {
	return process.Await(ctx, "the gateway", 300, 100*time.Millisecond, func() error {
		return w.gateway.try(w.request(pathSmall), bytesSmall)
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
