package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// builtImage is an image that run built, pushed and archived.
type builtImage struct {
	v1.Image
	binary  []byte
	archive string
}

// buildImage builds, pushes and archives an image twice, and pulls it by its digest.
func buildImage(t *testing.T) builtImage {
	t.Helper()
	binary := buildProgram(t, "arm64")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "http://") + "/quoin:dev"
	certificates := writeFile(t, "bundle.pem", "certificates")
	archive := filepath.Join(t.TempDir(), "below", "quoin.tar")

	var digests [2]string
	for i := range digests {
		var stdout bytes.Buffer
		err := run(t.Context(), []string{"--binary", binary, "--certificates", certificates, "--push", reference,
			"--tarball", archive, "--version", "v1.2.3", "--revision", "abc"}, &stdout)
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = strings.TrimSpace(stdout.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds of the same inputs differ: %v", digests)
	}
	image, err := crane.Pull(strings.TrimSuffix(reference, ":dev") + "@" + digests[0])
	if err != nil {
		t.Fatalf("pull by the printed digest: %v", err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return builtImage{image, content, archive}
}

func TestImage(t *testing.T) {
	image := buildImage(t)
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "arm64" || config.Config.User != "65532:65532" {
		t.Errorf("os %q, architecture %q, user %q", config.OS, config.Architecture, config.Config.User)
	}
	if diff := cmp.Diff([]string{"/usr/local/bin/quoin"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if got := config.Config.Labels["org.opencontainers.image.version"]; got != "v1.2.3" {
		t.Errorf("version label %q", got)
	}
	content := mutate.Extract(image)
	defer content.Close()
	files := readArchive(t, content)
	if !bytes.Equal(files["usr/local/bin/quoin"], image.binary) {
		t.Error("the binary in the image differs")
	}
	if got := string(files["etc/ssl/certs/ca-certificates.crt"]); got != "certificates" {
		t.Errorf("certificates %q", got)
	}
}

func TestPushAndArchiveHoldTheSameImage(t *testing.T) {
	image := buildImage(t)
	loaded, err := tarball.ImageFromPath(image.archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	loadedName, _ := loaded.ConfigName()
	pushedName, _ := image.ConfigName()
	if loadedName != pushedName {
		t.Errorf("configuration of the archive %s, of the registry %s", loadedName, pushedName)
	}
}

func TestMissingCertificatesAreOmitted(t *testing.T) {
	image, err := build(inputs{binary: buildProgram(t, "amd64"), certificates: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer content.Close()
	if _, present := readArchive(t, content)["etc/ssl/certs/ca-certificates.crt"]; present {
		t.Error("the image has certificates")
	}
}

func TestRejectsInvalidInputs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("uses /bin/sh as a dynamically linked binary")
	}
	script := writeFile(t, "script", "#!/bin/sh\n")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no target":      {[]string{"--binary", script}, "no target"},
		"argument":       {[]string{"bin/quoin"}, "unexpected argument"},
		"not a binary":   {[]string{"--binary", script, "--push", "127.0.0.1:1/quoin:dev"}, "not a binary for Linux"},
		"dynamic binary": {[]string{"--binary", "/bin/sh", "--push", "127.0.0.1:1/quoin:dev"}, "CGO_ENABLED=0"},
		"no binary":      {[]string{"--binary", "/nowhere", "--push", "127.0.0.1:1/quoin:dev"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), test.args, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// buildProgram builds a small static binary for Linux.
func buildProgram(t *testing.T, architecture string) string {
	t.Helper()
	source := writeFile(t, "main.go", "package main\n\nfunc main() {}\n")
	output := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", output, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return output
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func readArchive(t *testing.T, content io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}
