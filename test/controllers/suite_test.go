// Package controllers_test runs all controllers against a real API server, one call at a
// time, and lets things go wrong at every one of them.
package controllers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
)

// apiServer is the API server of all tests in the package; each test has a namespace of its own.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Println("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
		if os.Getenv("CI") != "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := env.Start()
	if err != nil {
		fmt.Println("start the API server:", err)
		os.Exit(1)
	}
	config.QPS = -1
	apiServer = config
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Println("stop the API server:", err)
	}
	os.Exit(code)
}
