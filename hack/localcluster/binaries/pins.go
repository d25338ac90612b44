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

// pin is a binary that is built from a published Go module.
type pin struct {
	binary    string // file name in the cache
	folder    string // nested module with its version, below hack/localcluster
	goPackage string // main package
	module    string // module whose version is the binary's version
	cold      string // duration of a build without a Go build cache, on 2 cores
}

const kubernetesModule = "k8s.io/kubernetes"

func kubernetesPin(binary, cold string) pin {
	return pin{binary, "kubernetes", kubernetesModule + "/cmd/" + binary, kubernetesModule, cold}
}

// pinSets are the binaries by kinds of nodes, in build order: the slowest of
// Kubernetes comes first, because the others reuse its build cache.
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
		{"coredns", "coredns", ".", "github.com/coredns/coredns", "1 min"},
	}},
}

// pinsFor returns the binaries of a cluster with such nodes.
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

// version returns the version of p in the go.mod of its nested module.
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

// linkerFlags strips the binary and, for Kubernetes, sets its version: without
// it the server reports v0.0.0-master+$Format, which clients that parse the
// version reject (Helm's kubeVersion, kubectl's skew check).
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

// pinHash returns the name of the cache folder, a hash of the pin files, the Go
// release and the platform. It is short because it is part of paths.
func pinHash(source, goVersion string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, goVersion, runtime.GOOS, runtime.GOARCH)
	for _, folder := range []string{"kubernetes", "etcd", "kwok", "registry", "coredns"} {
		for _, name := range []string{"go.mod", "go.sum"} {
			if err := hashFile(sum, source, filepath.Join(folder, name)); err != nil {
				return "", err
			}
		}
	}
	// The plugins of CoreDNS.
	if err := hashFile(sum, source, filepath.Join("coredns", "main.go")); err != nil {
		return "", err
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
