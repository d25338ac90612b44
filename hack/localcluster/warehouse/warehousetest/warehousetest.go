// Package warehousetest runs the warehouse for tests.
package warehousetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/warehouse"
)

// Start starts a warehouse until the end of the test. It returns the cluster
// whose daemon it is, which has nothing else and whose other ports are free, and
// the variables that warehouse.Start sets.
func Start(t *testing.T) (*cluster.Cluster, map[string]string) {
	t.Helper()
	if os.Geteuid() != 0 || len(host.MissingPackages(host.WarehousePackages)) > 0 {
		t.Skip("SKIPPED LOUDLY: the warehouse needs root and Debian's postgresql; make e2e installs and queries it")
	}
	// Not below the test's temporary folder, which the user of PostgreSQL may
	// not enter.
	state, err := os.MkdirTemp("/var/lib", "quoin-localcluster-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	if err := os.Chmod(state, 0o711); err != nil {
		t.Fatal(err)
	}
	ports, release, err := cluster.PickPorts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	c := &cluster.Cluster{Dir: t.TempDir(), Address: "127.0.0.1", Ports: ports}
	if err := warehouse.StartIn(t.Context(), c, filepath.Join(state, "warehouse")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(t, c, warehouse.DaemonName) })
	environment, err := cluster.ReadEnvironment(c.Path("env"))
	if err != nil {
		t.Fatal(err)
	}
	return c, environment
}

// Stop stops a daemon, which must still run.
func Stop(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	// The context of the test has ended.
	if ran, err := c.Daemons().Stop(context.WithoutCancel(t.Context()), name, process.StopTimeout); err != nil || !ran {
		t.Errorf("stop %s: ran %t, error %v", name, ran, err)
	}
}
