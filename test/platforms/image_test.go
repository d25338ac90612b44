package platforms_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// root is the repository.
const root = "../.."

// TestImageForARM64Runs builds the image for arm64, and runs its program in QEMU.
func TestImageForARM64Runs(t *testing.T) {
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("SKIPPED LOUDLY: the program of the image for arm64 is not run without QEMU (Debian: apt-get install qemu-user-static)")
	}
	folder := t.TempDir()
	binary, archive, program := filepath.Join(folder, "built"), filepath.Join(folder, "image.tar"), filepath.Join(folder, "quoin")
	goRun(t, []string{"GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0"}, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version=v1.2.3", "-o", binary, "./cmd/quoin")
	goRun(t, nil, "run", "./hack/image", "--binary", binary, "--tarball", archive)
	extract(t, archive, "usr/local/bin/quoin", program)
	for _, test := range []struct{ arguments, want string }{
		{"version", "v1.2.3"},
		{"controller --help", "-leader-elect"},
		{"apiserver --help", "-database-url"},
		{"gateway --help", "-sql-bind-address"},
		{"wait-ready --https=127.0.0.1:1 --timeout=1s", "connection refused"},
	} {
		// Some of these exit with an error, as documented; the output shows what has run.
		output, err := exec.CommandContext(t.Context(), qemu, append([]string{program}, strings.Fields(test.arguments)...)...).CombinedOutput()
		if !strings.Contains(string(output), test.want) {
			t.Errorf("quoin %s: %v: %s", test.arguments, err, output)
		}
	}
}

// goRun runs the command go in the repository.
func goRun(t *testing.T, env []string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir, command.Env = root, append(os.Environ(), env...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, output)
	}
}

// extract copies a file of the image in an archive.
func extract(t *testing.T, archive, name, target string) {
	t.Helper()
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != "arm64" {
		t.Fatalf("the image is for %q: %v", config.Architecture, err)
	}
	content := mutate.Extract(image)
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("the image has no file %s", name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Name != name {
			continue
		}
		out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, header.FileInfo().Mode())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, files); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
}
