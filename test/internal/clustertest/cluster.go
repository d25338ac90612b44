// Package clustertest provides the test suites with a kube-apiserver with Quoin's CRDs, `quoin` processes that a test can
// kill, and accounts with API keys.
package clustertest

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
)

// Namespace is the namespace of Quoin itself.
const Namespace = "quoin-system"

// Cluster is a real kube-apiserver.
type Cluster struct {
	// Config and Client have administrator permissions.
	Config *rest.Config
	Client client.Client
	// Folder is a temporary folder, removed after the tests.
	Folder string

	env *envtest.Environment
	// users are the configurations of the processes, by subcommand.
	users map[string]*rest.Config
}

// Main is the TestMain of a suite. run starts the other programs of the suite, runs the tests and returns their exit code.
// The context ends before the cluster stops.
func Main(m *testing.M, run func(ctx context.Context, c *Cluster, m *testing.M) (int, error)) {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Println("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
		if os.Getenv("CI") != "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	code, err := withCluster(func(ctx context.Context, c *Cluster) (int, error) { return run(ctx, c, m) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the test environment:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// withCluster starts the cluster, calls run, and stops the cluster.
func withCluster(run func(ctx context.Context, c *Cluster) (int, error)) (int, error) {
	folder, err := os.MkdirTemp("", "quoin-contract-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	c, stopServer, err := start(folder)
	if err != nil {
		return 0, err
	}
	defer func() { _ = stopServer() }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	return run(ctx, c)
}

// start starts a cluster with the namespace, the roles and the users of Quoin.
func start(folder string) (c *Cluster, stop func() error, err error) {
	env, err := apitest.Start()
	if err != nil {
		return nil, nil, err
	}
	c = &Cluster{Config: env.Config, Folder: folder, env: env}
	if err := c.prepare(env.KubeConfig); err != nil {
		return nil, nil, errors.Join(err, env.Stop())
	}
	return c, env.Stop, nil
}

func (c *Cluster) prepare(kubeconfig []byte) error {
	scheme, err := controllers.Scheme()
	if err != nil {
		return err
	}
	if c.Client, err = client.New(c.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := os.WriteFile(c.Kubeconfig(), kubeconfig, 0o600); err != nil {
		return err
	}
	return c.install(context.Background())
}

// Another starts a second cluster, which is stopped at the end of the test. Its processes run the same binary.
func (c *Cluster) Another(t testing.TB) *Cluster {
	t.Helper()
	other, stop, err := start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	if err := os.Symlink(c.Binary(), other.Binary()); err != nil {
		t.Fatal(err)
	}
	return other
}

// Kubeconfig returns the path of a kubeconfig with administrator permissions.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Folder, "kubeconfig") }

func (c *Cluster) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := c.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Roots returns the CA certificate of `quoin apiserver`. It returns an error until a process has created it.
func (c *Cluster) Roots(ctx context.Context) (*x509.CertPool, error) {
	secret := &corev1.Secret{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: certificates.SecretName}, secret); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return nil, fmt.Errorf("%s has no ca.crt", certificates.SecretName)
	}
	return roots, nil
}

// Account creates an account, a namespace of the same name with the RoleBindings for Quoin, and objects in it.
func (c *Cluster) Account(ctx context.Context, name string, spec v1alpha1.AccountSpec, objects ...client.Object) error {
	spec.Namespace = name
	if err := c.create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec},
	); err != nil {
		return err
	}
	if err := c.Grant(ctx, name); err != nil {
		return err
	}
	return c.create(ctx, objects...)
}

// Key returns an ApiKey of an account, with the hash already set, and its token.
func Key(account, name string, spec v1alpha1.ApiKeySpec) (key *v1alpha1.ApiKey, token string, err error) {
	generated, err := apikey.New(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	hash := generated.Hash()
	spec.Token = &hash
	return &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: name}, Spec: spec}, generated.Reveal(), nil
}

// Keys returns ApiKeys of an account and their tokens, by name.
func Keys(account string, specs map[string]v1alpha1.ApiKeySpec) (keys []client.Object, tokens map[string]string, err error) {
	tokens = map[string]string{}
	for name, spec := range specs {
		key, token, err := Key(account, name, spec)
		if err != nil {
			return nil, nil, err
		}
		keys, tokens[name] = append(keys, key), token
	}
	return keys, tokens, nil
}
