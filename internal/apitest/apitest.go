// Package apitest starts a real Kubernetes API server with Quoin's CRDs for the tests of a package.
package apitest

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
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

// server is the configuration of the API server that all tests of the package share; nil when
// there is none.
var server *rest.Config

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
	config, _, stop, err := Start()
	if err != nil {
		fmt.Println("start the API server:", err)
		return 1
	}
	defer func() {
		if err := stop(); err != nil {
			fmt.Println("stop the API server:", err)
		}
	}()
	server = config
	return m.Run()
}

// Start starts an API server with Quoin's kinds. It returns the client configuration and the
// kubeconfig of an administrator.
func Start() (config *rest.Config, kubeconfig []byte, stop func() error, err error) {
	_, here, _, _ := runtime.Caller(0)
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(filepath.Dir(here), "..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	if config, err = env.Start(); err != nil {
		return nil, nil, nil, err
	}
	config.QPS = -1
	return config, env.KubeConfig, env.Stop, nil
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
	return server
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
