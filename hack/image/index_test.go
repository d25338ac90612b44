package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestLayout: two builds of several architectures give the same archive, whose index has an image for each, with labels.
func TestLayout(t *testing.T) {
	amd64, arm64 := buildProgram(t, "amd64"), buildProgram(t, "arm64")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "http://") + "/quoin:v1.2.3"
	var archives [2][]byte
	var digests [2]string
	for i := range archives {
		path := filepath.Join(t.TempDir(), "image.tar")
		var stdout bytes.Buffer
		err := run(t.Context(), []string{"--binary", amd64, "--binary", arm64, "--certificates", writeFile(t, "bundle.pem", "certificates"),
			"--layout", path, "--push", reference, "--version", "v1.2.3", "--revision", "abc", "--created", "2026-01-02T03:04:05+01:00"}, &stdout)
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = strings.TrimSpace(stdout.String())
		if archives[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if digests[0] != digests[1] || !bytes.Equal(archives[0], archives[1]) {
		t.Errorf("two builds of the same inputs differ: %v", digests)
	}
	index := unpack(t, archives[0], digests[0])
	if pushed, err := crane.Digest(reference); err != nil || pushed != digests[0] {
		t.Errorf("the registry has %s, want %s: %v", pushed, digests[0], err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Annotations["org.opencontainers.image.created"]; got != "2026-01-02T02:04:05Z" {
		t.Errorf("created %q", got)
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		descriptor := manifest.Manifests[i]
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if descriptor.Platform.Architecture != architecture || config.Architecture != architecture || config.OS != "linux" {
			t.Errorf("platform %+v, configuration %s/%s", descriptor.Platform, config.OS, config.Architecture)
		}
		labels := config.Config.Labels
		if labels["org.opencontainers.image.version"] != "v1.2.3" || labels["org.opencontainers.image.revision"] != "abc" || config.Created.IsZero() {
			t.Errorf("labels %v, created %s", labels, config.Created)
		}
	}
}

// unpack returns the index with a digest in an archive of an image layout.
func unpack(t *testing.T, archive []byte, digest string) v1.ImageIndex {
	t.Helper()
	folder := t.TempDir()
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			content, _ := io.ReadAll(reader)
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		t.Fatal(err)
	}
	index, err := root.ImageIndex(hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	return index
}

func TestRejectsInvalidArchitectures(t *testing.T) {
	binary := buildProgram(t, "amd64")
	target := filepath.Join(t.TempDir(), "image.tar")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"twice":      {[]string{"--binary", binary, "--binary", binary, "--layout", target}, "another binary is for amd64 too"},
		"tarball":    {[]string{"--binary", binary, "--binary", binary, "--tarball", target}, "one architecture"},
		"created":    {[]string{"--binary", binary, "--layout", target, "--created", "yesterday"}, "created"},
		"no targets": {[]string{"--binary", binary}, "--layout"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), test.args, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
