// Package api_test checks the CRDs against the project's API conventions, and tests with a real kube-apiserver which
// objects are accepted or rejected, and with which messages.
package api_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// groupVersion is the apiVersion of all kinds. The tests do not use the Go types.
const groupVersion = "platform.quoin.dev/v1alpha1"

// crdFolder has the generated CRDs, relative to this package.
const crdFolder = "../../config/crd/bases"

// apiServer is the kube-apiserver of the package, with all CRDs.
type apiServer struct {
	client.Client
	config *rest.Config
}

var (
	environment = &envtest.Environment{
		CRDDirectoryPaths:     []string{crdFolder},
		ErrorIfCRDPathMissing: true,
	}
	startServer = sync.OnceValues(func() (*apiServer, error) {
		config, err := environment.Start()
		if err != nil {
			return nil, fmt.Errorf("start the API server with the CRDs of %s: %w", crdFolder, err)
		}
		config.QPS = -1
		c, err := client.New(config, client.Options{})
		if err != nil {
			return nil, err
		}
		return &apiServer{Client: c, config: config}, nil
	})
	serverStarted bool
)

func TestMain(m *testing.M) {
	code := m.Run()
	if serverStarted {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}
	os.Exit(code)
}

// server returns the kube-apiserver of the package. If the binaries are missing, it skips the test, or fails it in CI.
func server(t *testing.T) *apiServer {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		const help = "KUBEBUILDER_ASSETS is not set: no API server to test with. Get one by\n" +
			"  export KUBEBUILDER_ASSETS=\"$(cd hack/localcluster && go run . binaries --nodes none)\"\nor run make test-unit"
		if os.Getenv("CI") == "true" {
			t.Fatal(help)
		}
		t.Skip("SKIPPED: " + help)
	}
	serverStarted = true
	s, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testContext returns a context that ends with the test, or after a minute.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// namespace creates a namespace for the test.
func (s *apiServer) namespace(t *testing.T) string {
	t.Helper()
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetGenerateName("api-test-")
	if err := s.Create(testContext(t), ns); err != nil {
		t.Fatal(err)
	}
	return ns.GetName()
}

// object parses one YAML document.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("parse: %v\n%s", err, text)
	}
	return u
}

// fresh returns a new object of a kind, with a spec in YAML.
func fresh(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := object(t, "spec:\n"+indent(spec))
	u.SetAPIVersion(groupVersion)
	u.SetKind(kind)
	u.SetName(name)
	if k, _ := v1alpha1.KindOf(kind); !k.Cluster {
		u.SetNamespace(namespace)
	}
	return u
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// yamlFiles returns the YAML files of a folder in order, without kustomization.yaml.
func yamlFiles(t *testing.T, folder string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range all {
		if filepath.Base(f) != "kustomization.yaml" {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no YAML files in %s", folder)
	}
	return files
}
