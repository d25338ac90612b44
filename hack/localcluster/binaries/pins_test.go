package binaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

func TestPinsAreInTheirModules(t *testing.T) {
	source, err := SourceDirectory()
	if err != nil {
		t.Fatal(err)
	}
	var pins []pin
	for _, nodes := range []string{cluster.NodesSimulated, cluster.NodesReal} {
		some, err := pinsFor(nodes)
		if err != nil {
			t.Fatal(err)
		}
		pins = append(pins, some...)
	}
	for _, p := range pins {
		version, err := p.version(source)
		if err != nil {
			t.Errorf("%s: %v", p.binary, err)
			continue
		}
		isStamped := strings.Contains(p.linkerFlags(version), "component-base/version.gitVersion="+version)
		if isStamped != (p.module == kubernetesModule) {
			t.Errorf("%s: linker flags %q", p.binary, p.linkerFlags(version))
		}
	}
}

// Staging modules of another release than Kubernetes compile, but fail at run
// time.
func TestStagingModulesBelongToTheRelease(t *testing.T) {
	source, err := SourceDirectory()
	if err != nil {
		t.Fatal(err)
	}
	version, err := kubernetesPin("kubelet", "").version(source)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(source, "kubernetes", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want, replaced := "v0"+strings.TrimPrefix(version, "v1"), 0
	for line := range strings.Lines(string(text)) {
		if _, target, ok := strings.Cut(line, "=>"); ok {
			replaced++
			if fields := strings.Fields(target); len(fields) != 2 || fields[1] != want {
				t.Errorf("%q: want version %s", strings.TrimSpace(line), want)
			}
		}
	}
	if replaced < 30 {
		t.Errorf("%d replace lines: some are missing", replaced)
	}
}

func TestPinSetsAreCumulative(t *testing.T) {
	var last int
	for _, nodes := range []string{cluster.NodesNone, cluster.NodesSimulated, cluster.NodesReal} {
		pins, err := pinsFor(nodes)
		if err != nil || len(pins) <= last {
			t.Errorf("%s: %d binaries, error %v", nodes, len(pins), err)
		}
		last = len(pins)
	}
	if _, err := pinsFor("other"); err == nil {
		t.Error("no error for unknown nodes")
	}
}

func TestPinHash(t *testing.T) {
	source := t.TempDir()
	for _, folder := range []string{"kubernetes", "etcd", "kwok", "registry", "coredns"} {
		if err := os.Mkdir(filepath.Join(source, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"go.mod", "go.sum"} {
			if err := os.WriteFile(filepath.Join(source, folder, name), []byte(folder), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(source, "coredns", "main.go"), []byte("package main"), 0o644); err != nil {
		t.Fatal(err)
	}
	hash := func(goVersion string) string {
		t.Helper()
		sum, err := pinHash(source, goVersion)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := hash("go1.26.8")
	if again := hash("go1.26.8"); again != first {
		t.Errorf("same input, different hashes %s and %s", first, again)
	}
	if other := hash("go1.26.9"); other == first {
		t.Error("the Go release does not change the hash")
	}
	if err := os.WriteFile(filepath.Join(source, "kwok", "go.sum"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if other := hash("go1.26.8"); other == first {
		t.Error("a pin file does not change the hash")
	}
}

func TestVersion(t *testing.T) {
	source := t.TempDir()
	p := pin{folder: "x", module: "example.com/tool"}
	for text, want := range map[string]string{
		"module m\n\nrequire example.com/tool v1.2.3\n":                                             "v1.2.3",
		"module m\n\nrequire (\n\texample.com/a v0.1.0\n\texample.com/tool v4.5.6 // indirect\n)\n": "v4.5.6",
		"module m\n\nrequire example.com/tool/v2 v2.0.0\n":                                          "",
	} {
		if err := os.MkdirAll(filepath.Join(source, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, "x", "go.mod"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := p.version(source); got != want || (err == nil) != (want != "") {
			t.Errorf("version %q, error %v, want %q", got, err, want)
		}
	}
}
