package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientrest "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/serving"
)

const (
	host      = "bench.example.com"
	namespace = "bench"
	system    = "quoin-system"
)

// connections are kept open to each service.
const connections = 64

// world is an API server, the processes of Quoin beside it, and one account.
type world struct {
	dir               string
	env               *envtest.Environment
	k8s               client.Client
	front, controller *process
	metrics           string
	// rfc and entra are Quoin's SCIM service, as clients with keys of these profiles see it.
	rfc, entra *service
	// direct is the account's namespace on the API server, without any client library, and root all
	// of that server.
	direct, root *service
}

// startWorld returns what is to be stopped, even when it fails.
func startWorld(ctx context.Context, o options) (*world, error) {
	progress("starting an API server")
	dir, err := os.MkdirTemp("", "quoin-bench-scim-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, env: &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("config", "crd", "bases")}, ErrorIfCRDPathMissing: true}}
	config, err := w.env.Start()
	if err != nil {
		return w, err
	}
	config.QPS = -1
	if err := w.furnish(ctx, config); err != nil {
		return w, err
	}
	progress("starting quoin")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, w.env.KubeConfig, 0o600); err != nil {
		return w, err
	}
	if o.controller {
		w.controller, err = startProcess(ctx, "controller", dir, o.quoin, "controller", "--kubeconfig", kubeconfig,
			"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false", "--log-level=warn")
		if err != nil {
			return w, err
		}
	}
	return w, w.startFront(ctx, o, kubeconfig)
}

// furnish makes the account and its keys, as the controllers would have left them.
func (w *world) furnish(ctx context.Context, config *clientrest.Config) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	if w.k8s, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	trust, err := clientrest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	w.root = &service{client: newClient(trust), base: strings.TrimSuffix(config.Host, "/")}
	w.direct = &service{client: w.root.client, base: fmt.Sprintf("%s/apis/%s/namespaces/%s", w.root.base, v1alpha1.GroupVersion, namespace)}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: host, Namespace: namespace}},
	}
	w.rfc, w.entra = &service{host: host}, &service{host: host}
	for _, key := range []struct {
		service *service
		profile v1alpha1.ScimProfile
	}{{w.rfc, "RFC"}, {w.entra, "EntraID"}} {
		token, err := apikey.New(rand.Reader)
		if err != nil {
			return err
		}
		hash := token.Hash()
		key.service.token = token.Reveal()
		objects = append(objects, &v1alpha1.ApiKey{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ToLower(string(key.profile))},
			Spec:       v1alpha1.ApiKeySpec{ScimProfile: key.profile, Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}, Token: &hash},
		})
	}
	for _, obj := range objects {
		if err := w.k8s.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

func newClient(trust *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, TLSClientConfig: trust}}
}

func (w *world) startFront(ctx context.Context, o options, kubeconfig string) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	if w.metrics, err = freeAddress(); err != nil {
		return err
	}
	w.front, err = startProcess(ctx, "apiserver", w.dir, o.quoin, "apiserver", "--kubeconfig", kubeconfig,
		"--bind-address", address, "--metrics-bind-address", w.metrics, "--health-probe-bind-address=0", "--aggregation=false",
		"--requests-per-second=1000000", "--burst=1000000", "--log-level=warn", "--shutdown-delay=0s")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	both := newClient(&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12})
	for _, s := range []*service{w.rfc, w.entra} {
		s.client, s.base = both, "https://"+address+"/api/scim/v2"
	}
	var last error
	for range 300 {
		secret := &corev1.Secret{}
		if last = w.k8s.Get(ctx, client.ObjectKey{Namespace: system, Name: serving.SecretName}, secret); last == nil {
			roots.AppendCertsFromPEM(secret.Data["ca.crt"])
			_, _, last = w.rfc.list(ctx, "/Users?count=1", 0)
		}
		if last == nil || ctx.Err() != nil {
			return last
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the front end does not answer: %w\n%s", last, w.lastWords())
}

func (w *world) lastWords() string {
	said := ""
	for _, p := range []*process{w.front, w.controller} {
		if p != nil {
			said += p.lastWords()
		}
	}
	return said
}

func (w *world) stop() {
	w.front.stop()
	w.controller.stop()
	_ = w.env.Stop()
	_ = os.RemoveAll(w.dir)
}
