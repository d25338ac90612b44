package product

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

func TestSampleManifests(t *testing.T) {
	folder := t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(folder, "20_channel.yaml"):    "kind: ReleaseChannel\nspec:\n  imageRepository: 127.0.0.1:15000/cube\n",
		filepath.Join(folder, "10_account.yaml"):    "kind: Account\n",
		filepath.Join(folder, "kustomization.yaml"): "resources: [10_account.yaml]\n",
		filepath.Join(folder, "README.md"):          "not a manifest",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := sampleManifests(folder, []string{samplesRegistry, "127.0.0.1:20211"})
	if err != nil {
		t.Fatal(err)
	}
	want := "---\nkind: Account\n---\nkind: ReleaseChannel\nspec:\n  imageRepository: 127.0.0.1:20211/cube\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := sampleManifests(t.TempDir(), nil); err == nil {
		t.Error("no error for an empty folder")
	}
}

// TestSamplesContainReplacedValues checks that the samples contain every value
// that is replaced, otherwise they would keep wrong addresses.
func TestSamplesContainReplacedValues(t *testing.T) {
	root, err := binaries.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	samples := filepath.Join(root, "config", "samples")
	for _, nodes := range []string{cluster.NodesSimulated, cluster.NodesReal} {
		c := &cluster.Cluster{Nodes: nodes, Address: "172.30.7.1", Ports: cluster.PortBlock(20000)}
		replacements := sampleReplacements(c)
		text, err := sampleManifests(samples, nil)
		if err != nil {
			t.Fatal(err)
		}
		replaced, err := sampleManifests(samples, replacements)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(replacements); i += 2 {
			if !strings.Contains(text, replacements[i]) || strings.Contains(replaced, replacements[i]) {
				t.Errorf("%s: %q is not in the samples, or is not replaced", nodes, replacements[i])
			}
		}
		if nodes == cluster.NodesReal && !strings.Contains(replaced, `range: "~0.35.0"`) {
			t.Errorf("the channel with a range does not have the newest server:\n%s", replaced)
		}
	}
}
