package binaries

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

// pin is one binary that localcluster builds from a published Go module.
type pin struct {
	binary    string // file name in the cache
	folder    string // nested module that pins it, below hack/localcluster
	goPackage string // main package
	module    string // module whose version is the binary's version
	cold      string // what a build takes without a Go build cache, on 2 cores
}

const kubernetesModule = "k8s.io/kubernetes"

func kubernetesPin(binary, cold string) pin {
	return pin{binary, "kubernetes", kubernetesModule + "/cmd/" + binary, kubernetesModule, cold}
}

// pinSets lists what clusters need, by the kinds of nodes for which they do. The
// order is the order of building: the slow one first, because the rest of
// Kubernetes reuses its build cache.
var pinSets = []struct {
	nodes []string
	pins  []pin
}{
	{[]string{cluster.NodesNone, cluster.NodesSimulated, cluster.NodesReal}, []pin{
		kubernetesPin("kube-apiserver", "3 min"),
		{"etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "30 s"},
		kubernetesPin("kubectl", "20 s"),
	}},
	{[]string{cluster.NodesSimulated, cluster.NodesReal}, []pin{
		kubernetesPin("kube-controller-manager", "1 min"),
		kubernetesPin("kube-scheduler", "5 s"),
		{"registry", "registry", "github.com/distribution/distribution/v3/cmd/registry", "github.com/distribution/distribution/v3", "1 min"},
	}},
	{[]string{cluster.NodesSimulated}, []pin{
		{"kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", "1 min"},
	}},
	{[]string{cluster.NodesReal}, []pin{
		kubernetesPin("kubelet", "20 s"),
		kubernetesPin("kube-proxy", "10 s"),
	}},
}

// pinsFor returns the binaries that a cluster with such nodes needs.
func pinsFor(nodes string) ([]pin, error) {
	var pins []pin
	for _, set := range pinSets {
		if slices.Contains(set.nodes, nodes) {
			pins = append(pins, set.pins...)
		}
	}
	if len(pins) > 0 {
		return pins, nil
	}
	return nil, fmt.Errorf("unknown nodes %q: want %s, %s or %s", nodes, cluster.NodesNone, cluster.NodesSimulated, cluster.NodesReal)
}

// version reads the pinned version of p from the go.mod of its nested module.
func (p pin) version(source string) (string, error) {
	path := filepath.Join(source, p.folder, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	pattern := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(p.module) + ` (v\S+)`)
	match := pattern.FindSubmatch(text)
	if match == nil {
		return "", fmt.Errorf("%s does not require %s", path, p.module)
	}
	return string(match[1]), nil
}

// linkerFlags strips the binary and, for Kubernetes, stamps its version:
// without it the server reports v0.0.0-master+$Format and clients that parse
// the version (Helm's kubeVersion, kubectl's skew check) refuse it.
func (p pin) linkerFlags(version string) string {
	flags := []string{"-s", "-w"}
	if p.module == kubernetesModule {
		parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
		for _, stamped := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
			flags = append(flags, "-X "+stamped+".gitVersion="+version,
				"-X "+stamped+".gitMajor="+parts[0], "-X "+stamped+".gitMinor="+parts[1])
		}
	}
	return strings.Join(flags, " ")
}

// pinHash names one state of the cache: it changes with any pin file, the Go
// release and the platform. It is short because it is part of paths.
func pinHash(source, goVersion string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, goVersion, runtime.GOOS, runtime.GOARCH)
	for _, folder := range []string{"kubernetes", "etcd", "kwok", "registry"} {
		for _, name := range []string{"go.mod", "go.sum"} {
			if err := hashFile(sum, source, filepath.Join(folder, name)); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func hashFile(sum io.Writer, source, name string) error {
	text, err := os.ReadFile(filepath.Join(source, name))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	return err
}
