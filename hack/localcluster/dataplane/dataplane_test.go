package dataplane

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/hack/localcluster/image"
)

// installed writes files and a lock file with the hashes of packages, as npm
// does.
func installed(t *testing.T, folder string, packages map[string]string, files ...string) {
	t.Helper()
	entries := map[string]any{"": map[string]string{"name": "quoin-dataplane"}}
	for name, integrity := range packages {
		entries[name] = map[string]string{"integrity": integrity}
	}
	lock, err := json.Marshal(map[string]any{"packages": entries})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("package-lock.json", string(lock))
	for _, name := range files {
		write(filepath.Join("node_modules", name), name)
	}
}

// layerFiles returns the names of the files of a layer, without folders.
func layerFiles(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(image.Created) {
			t.Errorf("%s has the time %s", header.Name, header.ModTime)
		}
		if header.Typeflag == tar.TypeReg {
			names = append(names, header.Name)
		}
	}
}

func TestDifferentModulesAreInTheLayerOfTheirVersion(t *testing.T) {
	work, layers := t.TempDir(), t.TempDir()
	older := map[string]string{"node_modules/express": "1", "node_modules/@scope/server": "2", "node_modules/@scope/server/node_modules/ws": "3", "node_modules/gone": "4"}
	newer := map[string]string{"node_modules/express": "1", "node_modules/@scope/server": "5", "node_modules/@scope/server/node_modules/ws": "3", "node_modules/both": "6"}
	newest := map[string]string{"node_modules/express": "1", "node_modules/@scope/server": "7", "node_modules/@scope/server/node_modules/ws": "3", "node_modules/both": "6"}
	files := []string{
		"express/index.js", "express/index.js.map", "express/index.d.ts", "express/node_modules/bundled/index.js",
		"@scope/server/index.js", "@scope/server/node_modules/ws/index.js", ".bin/server", ".package-lock.json",
	}
	installed(t, filepath.Join(work, "v"+Versions[0]), older, append(files, "gone/index.js")...)
	installed(t, filepath.Join(work, "v"+Versions[1]), newer, append(files, "both/index.js")...)
	installed(t, filepath.Join(work, "v"+Versions[2]), newest, append(files, "both/index.js")...)
	if err := writeModules(work, layers); err != nil {
		t.Fatal(err)
	}
	for layer, want := range map[string][]string{
		layerModules: {
			"cube/node_modules/@scope/server/node_modules/ws/index.js", "cube/node_modules/express/index.js",
			"cube/node_modules/express/node_modules/bundled/index.js",
		},
		Versions[0]: {"cube/node_modules/@scope/server/index.js", "cube/node_modules/gone/index.js"},
		Versions[1]: {"cube/node_modules/@scope/server/index.js", "cube/node_modules/both/index.js"},
		Versions[2]: {"cube/node_modules/@scope/server/index.js", "cube/node_modules/both/index.js"},
	} {
		if got := layerFiles(t, layerPath(layers, layer)); !slices.Equal(got, want) {
			t.Errorf("layer %s: got %q, want %q", layer, got, want)
		}
	}
}

// TestLockFiles checks that every package has a committed hash, that no lock
// file contains registry URLs, and that each folder installs its version of the
// server.
func TestLockFiles(t *testing.T) {
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders() {
		text, err := os.ReadFile(filepath.Join(source, folder, "package-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"resolved"`) {
			t.Errorf("%s contains registry URLs; npm config set omit-lockfile-registry-resolved true", folder)
		}
		packages, err := lockedPackages(filepath.Join(source, folder, "package-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(packages)) {
			if packages[name] == "" {
				t.Errorf("%s: %s has no hash", folder, name)
			}
		}
	}
	for _, version := range Versions {
		var manifest struct{ Dependencies map[string]string }
		text, err := os.ReadFile(filepath.Join(source, "v"+version, "package.json"))
		if err == nil {
			err = json.Unmarshal(text, &manifest)
		}
		if err != nil || manifest.Dependencies["@cubejs-backend/server"] != version {
			t.Errorf("v%s installs server %q, error %v", version, manifest.Dependencies["@cubejs-backend/server"], err)
		}
	}
}

func TestDataplaneVersion(t *testing.T) {
	for tag, want := range map[string]string{
		"v0.34.62": "0.34.62", "0.35.81": "0.35.81", "v0.35.82": "0.35.81", "v1.2.4-broken": "0.35.81", "v1.6.57": "1.6.57", "v1.10": "1.6.57",
		"v0.1.0": "0.34.62", "latest": "1.6.57",
	} {
		if got := versionOf(tag); got != want {
			t.Errorf("tag %s has server %s, want %s", tag, got, want)
		}
	}
}

func TestDataplaneHashFollowsItsInputs(t *testing.T) {
	source := t.TempDir()
	for _, folder := range folders() {
		for _, name := range npmFiles {
			path := filepath.Join(source, folder, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(folder), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	hash := func() string {
		sum, err := hash(source)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := hash()
	if again := hash(); again != first {
		t.Errorf("same input, different hashes %s and %s", first, again)
	}
	if err := os.WriteFile(filepath.Join(source, layerNode, "package-lock.json"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if other := hash(); other == first {
		t.Error("a lock file does not change the hash")
	}
}

func TestDataplaneImages(t *testing.T) {
	cache := t.TempDir()
	for _, name := range append([]string{layerNode, layerModules}, Versions...) {
		if err := image.WriteLayer(layerPath(cache, name), func(w *image.LayerWriter) error { return w.Text(name, name) }); err != nil {
			t.Fatal(err)
		}
	}
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, tag := range []string{"v0.34.62", "v0.35.81", "v0.35.82", "v1.6.57"} {
		for _, broken := range []bool{false, true} {
			options, err := Image(cache, source, tag, broken)
			if err != nil {
				t.Fatal(err)
			}
			image, err := image.Build(options)
			if err != nil {
				t.Fatal(err)
			}
			digest, err := image.Digest()
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := digests[digest.String()]; ok {
				t.Errorf("%s and %s (broken: %t) have the same digest", tag, other, broken)
			}
			digests[digest.String()] = tag
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(config.Config.Env, "DATAPLANE_VERSION="+tag) || config.Config.WorkingDir != "/cube/conf" || config.Config.User != "1000:1000" {
				t.Errorf("%s: configuration %+v", tag, config.Config)
			}
		}
	}
}
