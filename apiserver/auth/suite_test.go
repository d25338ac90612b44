package auth

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// apiServer is the API server of all tests in the package, nil where there is none; each
// test has a namespace of its own.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// Fuzzing starts this once for each processor, and needs no API server.
	flag.Parse()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" || flag.Lookup("test.fuzz").Value.String() != "" {
		return m.Run()
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := env.Start()
	if err != nil {
		fmt.Println("start the API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Println("stop the API server:", err)
		}
	}()
	config.QPS = -1
	apiServer = config
	return m.Run()
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// direct returns a client of the API server itself and a namespace of the test's own.
func direct(t *testing.T) (c client.WithWatch, namespace string) {
	t.Helper()
	if apiServer == nil {
		if os.Getenv("CI") != "" {
			t.Fatal("KUBEBUILDER_ASSETS is not set")
		}
		t.Skip("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
	}
	c, err := client.NewWithWatch(apiServer, client.Options{Scheme: testScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "auth-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return c, ns.Name
}
