package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"time"
)

// registryConfiguration configures the OCI distribution registry. Deleting is
// on because tests take tags away; no access log, because scans of release
// channels would fill the disk.
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

// registry is the OCI distribution registry, over plain HTTP on loopback.
func (c *cluster) registry() (component, error) {
	text := fmt.Sprintf(registryConfiguration, c.path("registry"), c.registryAddress(), rand.Text())
	if err := c.writeFile([]byte(text), 0o600, "manifests", "registry.yaml"); err != nil {
		return component{}, err
	}
	if err := os.MkdirAll(c.path("registry"), 0o755); err != nil {
		return component{}, err
	}
	return component{
		daemon: daemon{
			name:        "registry",
			path:        c.binary("registry"),
			args:        []string{"serve", c.path("manifests", "registry.yaml")},
			environment: []string{"OTEL_TRACES_EXPORTER=none"}, // its default looks for a collector
		},
		port:     portRegistry,
		deadline: 30 * time.Second,
		ready:    httpProbe(http.DefaultClient, "http://"+c.registryAddress()+"/v2/"),
	}, nil
}
