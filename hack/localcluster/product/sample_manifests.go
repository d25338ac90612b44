package product

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/dataplane"
	"github.com/quoin-dev/quoin/hack/localcluster/modelserver"
)

// Values in config/samples, which is written for a cluster with the default
// ports and simulated nodes.
const (
	samplesRegistry   = "127.0.0.1:15000"
	samplesHost       = sampleHost + ":18443"
	samplesDataDomain = sampleDataDomain + ":18444"
	samplesGit        = "http://git.quoin.localhost:15080"
	samplesRange      = `range: "~1.2.0"`
	samplesWarehouse  = "value: warehouse\n"
	samplesPort       = `value: "5432"`
	samplesModel      = "http://localhost:8080/v1"
)

// sampleReplacements returns pairs of values in the samples and their
// replacements for a cluster.
func sampleReplacements(c *cluster.Cluster) []string {
	replacements := []string{
		samplesRegistry, c.RegistryAddress(),
		samplesHost, fmt.Sprintf("%s:%d", sampleHost, c.Ports[cluster.PortQuoinAPIServer]),
		samplesDataDomain, fmt.Sprintf("%s:%d", sampleDataDomain, c.Ports[cluster.PortGateway]),
		samplesGit, "http://" + net.JoinHostPort(c.Address, strconv.Itoa(c.Ports[cluster.PortGit])),
	}
	if c.Nodes != cluster.NodesReal {
		return replacements
	}
	version := strings.Split(dataplane.SampleVersion, ".")
	return append(replacements,
		samplesRange, fmt.Sprintf("range: \"~%s.%s.0\"", version[0], version[1]),
		samplesWarehouse, "value: "+c.Address+"\n",
		samplesPort, fmt.Sprintf("value: %q", strconv.Itoa(c.Ports[cluster.PortWarehouse])),
		samplesModel, modelserver.URL(c),
	)
}

// sampleManifests joins the manifests of a folder, in the order of their file
// names, after replacing values.
func sampleManifests(folder string, replacements []string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return "", err
	}
	if len(paths) == 0 {
		return "", fmt.Errorf("no samples in %s", folder)
	}
	replacer := strings.NewReplacer(replacements...)
	var text strings.Builder
	for _, path := range paths {
		if filepath.Base(path) == "kustomization.yaml" {
			continue
		}
		manifest, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "---\n%s\n", strings.TrimSpace(replacer.Replace(string(manifest))))
	}
	return text.String(), nil
}
