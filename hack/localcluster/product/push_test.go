package product

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/quoin-dev/quoin/hack/localcluster/image"
)

func testImage(t *testing.T, repository, version string, broken bool) (built v1.Image, digest string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sampleserver")
	if err := os.WriteFile(binary, []byte("not really a binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	options, err := sampleImage(binary, repository, version, broken)
	if err != nil {
		t.Fatal(err)
	}
	built, err = image.Build(options)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := built.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return built, hash.String()
}

func TestSampleImageDigests(t *testing.T) {
	_, first := testImage(t, "cube", "v1.2.3", false)
	if _, again := testImage(t, "cube", "v1.2.3", false); again != first {
		t.Error("the same image has two digests")
	}
	for name, other := range map[string]func() (v1.Image, string){
		"another version":    func() (v1.Image, string) { return testImage(t, "cube", "v1.2.4", false) },
		"another repository": func() (v1.Image, string) { return testImage(t, "cube-store", "v1.2.3", false) },
		"broken":             func() (v1.Image, string) { return testImage(t, "cube", "v1.2.3", true) },
	} {
		if _, digest := other(); digest == first {
			t.Errorf("%s has the same digest", name)
		}
	}
}

func TestSampleImageConfiguration(t *testing.T) {
	image, _ := testImage(t, "team/cube", "v1.2.3", false)
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Config.User != "1000:1000" || file.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" ||
		file.Config.Labels["org.opencontainers.image.title"] != "cube" || file.Config.Entrypoint[0] != "/sampleserver" {
		t.Errorf("configuration %+v", file.Config)
	}
	if mediaType, err := image.MediaType(); err != nil || mediaType != types.OCIManifestSchema1 {
		t.Errorf("media type %s, error %v", mediaType, err)
	}
}
