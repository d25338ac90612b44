package controlplane

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// registryConfiguration configures the OCI distribution registry. Deletion is
// enabled for tests that delete tags; the access log is disabled because scans
// of release channels would fill the disk.
const registryConfiguration = `version: 0.1
log:
  level: warn
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: %q
  delete:
    enabled: true
  cache:
    blobdescriptor: inmemory
http:
  addr: %s
  secret: %s
  headers:
    X-Content-Type-Options: [nosniff]
`

// registry returns the component of the OCI distribution registry, over plain
// HTTP on loopback.
func registry(c *cluster.Cluster) (cluster.Component, error) {
	text := fmt.Sprintf(registryConfiguration, c.Path("registry"), c.RegistryAddress(), rand.Text())
	if err := c.WriteFile([]byte(text), 0o600, "manifests", "registry.yaml"); err != nil {
		return cluster.Component{}, err
	}
	if err := os.MkdirAll(c.Path("registry"), 0o755); err != nil {
		return cluster.Component{}, err
	}
	return cluster.Component{
		Daemon: process.Daemon{
			Name:        "registry",
			Path:        c.Binary("registry"),
			Args:        []string{"serve", c.Path("manifests", "registry.yaml")},
			Environment: []string{"OTEL_TRACES_EXPORTER=none"}, // the default connects to a collector
		},
		Port:    cluster.PortRegistry,
		Timeout: 30 * time.Second,
		Ready:   process.HTTPProbe(http.DefaultClient, "http://"+c.RegistryAddress()+"/v2/"),
	}, nil
}
