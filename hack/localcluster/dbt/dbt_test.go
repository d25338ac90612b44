package dbt

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/hack/localcluster/image"
)

// TestRequirements checks that every package has an exact version and hashes,
// that the file names no registry, and that it has the versions of
// requirements.in.
func TestRequirements(t *testing.T) {
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	locked, err := os.ReadFile(filepath.Join(source, requirements))
	if err != nil {
		t.Fatal(err)
	}
	text := string(locked)
	if strings.Contains(text, "://") || strings.Contains(text, "index-url") {
		t.Errorf("%s names a registry", requirements)
	}
	for entry := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(text), "\n    ", " "), "\n") {
		if !regexp.MustCompile(`^[a-z0-9-]+(\[\w+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}`).MatchString(entry) {
			t.Errorf("%.80s…: no exact version, or no hash", entry)
		}
	}
	wanted, err := os.ReadFile(filepath.Join(source, "requirements.in"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(strings.Fields(string(wanted)), "dbt-core=="+Version) {
		if !strings.Contains("\n"+text, "\n"+name+" ") {
			t.Errorf("%s has no %s", requirements, name)
		}
	}
}

func TestHashFollowsTheRequirements(t *testing.T) {
	source := t.TempDir()
	var hashes []string
	for _, content := range []string{"a", "b", "a"} {
		if err := os.WriteFile(filepath.Join(source, requirements), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		hash, err := hash(source)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, hash)
	}
	if hashes[0] == hashes[1] || hashes[0] != hashes[2] {
		t.Errorf("%q", hashes)
	}
}

func TestImageConfiguration(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{layerSystem, layerPackages} {
		if err := image.WriteLayer(layerPath(cache, name), func(w *image.LayerWriter) error { return w.Text(name, name) }); err != nil {
			t.Fatal(err)
		}
	}
	built, err := imageOf(cache)
	if err != nil {
		t.Fatal(err)
	}
	file, err := built.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if c.User != "1000:1000" || c.Entrypoint[0] != "/usr/bin/dbt" || c.Env[0] != "PATH=/usr/bin" || c.Labels["org.opencontainers.image.version"] != Version {
		t.Errorf("%+v", c)
	}
}

// TestModulesOfTheStandardLibrary: tests and compiled files are omitted, and
// symbolic links become files.
func TestModulesOfTheStandardLibrary(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	for _, name := range []string{"os.py", "json/__init__.py", "json/__pycache__/__init__.pyc", "test/test_os.py", "config-3.11/Makefile"} {
		path := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link.py": "os.py", "dangling.py": "nothing.py"} {
		if err := os.Symlink(to, filepath.Join(source, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyModules(source, target); err != nil {
		t.Fatal(err)
	}
	copied, err := filepath.Glob(filepath.Join(target, "*"))
	nested, _ := filepath.Glob(filepath.Join(target, "*", "*"))
	var names []string
	for _, path := range append(copied, nested...) {
		name, _ := filepath.Rel(target, path)
		names = append(names, name)
	}
	if want := []string{"json", "link.py", "os.py", "json/__init__.py"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("copied %q, %v; want %q", names, err, want)
	}
}
