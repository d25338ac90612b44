// Package api_test holds the house's API rules to the kinds' CRDs and asks a real API
// server what it takes, what it refuses and with which words.
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

// groupVersion of all kinds, as people write it: the tests see the API from outside.
const groupVersion = "platform.quoin.dev/v1alpha1"

// crdFolder holds the generated CRDs, seen from this package.
const crdFolder = "../../config/crd/bases"

// apiServer is the one API server of the package, with all CRDs installed.
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

// server gives the package's API server. Where the binaries are missing the test is
// skipped, in CI it fails: there a skipped test would be a silent hole.
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

// testContext ends with the test, or after a minute: no request here takes a second.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// namespace makes a namespace of the test's own.
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

// fresh is an object of one of our kinds with a spec written as YAML.
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

// yamlFiles are the YAML files of a folder, in order, without kustomization.yaml.
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
