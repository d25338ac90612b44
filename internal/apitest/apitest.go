// Package apitest starts a real Kubernetes API server with Quoin's CRDs for the tests of a package.
package apitest

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// server is the API server that all tests of the package share; nil when there is none.
var server *envtest.Environment

// Main implements TestMain: it runs the tests with an API server if KUBEBUILDER_ASSETS is set.
// Fuzzing, which runs Main once per processor, needs none.
func Main(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" || flag.Lookup("test.fuzz").Value.String() != "" {
		return m.Run()
	}
	env, err := Start()
	if err != nil {
		fmt.Println("start the API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Println("stop the API server:", err)
		}
	}()
	server = env
	return m.Run()
}

// Start starts an API server with Quoin's kinds. The caller stops it.
func Start() (*envtest.Environment, error) {
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(directory(), "..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	policy, audit, err := AuditLog()
	if err != nil {
		return nil, err
	}
	flags := env.ControlPlane.GetAPIServer().Configure()
	// The default has 254 addresses, and the Services of a test stay: there is no garbage collector.
	flags.Set("service-cluster-ip-range", "10.0.0.0/16")
	if audit != "" {
		flags.Set("audit-policy-file", policy).Set("audit-log-path", audit)
	}
	config, err := env.Start()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return env, nil
}

// Scheme returns a scheme with the kinds of Quoin and Kubernetes.
func Scheme(t testing.TB) *k8sruntime.Scheme {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{v1alpha1.AddToScheme, clientgoscheme.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Server returns the client configuration of the API server. Without one the test is skipped, or
// fails if CI is set.
func Server(t testing.TB) *rest.Config {
	t.Helper()
	if server == nil {
		if os.Getenv("CI") != "" {
			t.Fatal("KUBEBUILDER_ASSETS is not set")
		}
		t.Skip("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
	}
	return server.Config
}

// As returns the client configuration of a user without permissions but those of roles that are bound to it. Its requests
// are in the audit log under its own name, unlike those with impersonation.
func As(t testing.TB, user string) *rest.Config {
	t.Helper()
	Server(t) // skips the test when there is none
	added, err := server.AddUser(envtest.User{Name: user}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(added.Config())
	config.QPS = -1
	return config
}

// Direct returns an uncached client and the name of a new namespace.
func Direct(t testing.TB) (c client.WithWatch, namespace string) {
	t.Helper()
	c, err := client.NewWithWatch(Server(t), client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return c, ns.Name
}

// IssuedIDs returns the annotation of an account with the IDs that were allocated.
func IssuedIDs(t testing.TB, c client.Reader, account string) string {
	t.Helper()
	a := &v1alpha1.Account{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: account}, a); err != nil {
		t.Fatal(err)
	}
	return a.Annotations[v1alpha1.AnnotationIssuedIDs]
}

// PodIP returns an address of this machine for pods of a test: EndpointSlices reject loopback
// addresses. It skips the test if there is none.
func PodIP(t testing.TB) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range all {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Skip("SKIPPED: this machine has only loopback addresses, which EndpointSlices reject")
	return ""
}
