package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// dataplaneVersions are the versions of the real server, the newest last. Each
// has a folder in hack/dataplane with what npm installs.
var dataplaneVersions = []string{"0.34.62", "0.35.81"}

// dataplaneLayout goes up when the same packages make other layers.
const dataplaneLayout = "1"

// Layers of the real server's images, as files of the cache. A version has a
// layer of its own besides these, for what differs.
const (
	layerNode    = "node"    // the interpreter and the libraries that it needs
	layerModules = "modules" // npm packages that all versions have
)

// dataplaneVersion is the version of the server that a tag gets: its own when
// the tag names one, otherwise the newest.
func dataplaneVersion(tag string) string {
	for _, version := range dataplaneVersions {
		if strings.TrimPrefix(tag, "v") == version {
			return version
		}
	}
	return dataplaneVersions[len(dataplaneVersions)-1]
}

// dataplaneImage describes the image of the real server under a tag. Two tags
// with one version of the server have different digests: the tag is in them.
func dataplaneImage(cache, source, tag string, broken bool) (imageOptions, error) {
	version := dataplaneVersion(tag)
	var layers []v1.Layer
	for _, name := range []string{layerNode, layerModules, version} {
		layer, err := tarball.LayerFromFile(layerPath(cache, name), tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return imageOptions{}, err
		}
		layers = append(layers, layer)
	}
	own, err := memoryLayer(func(w *layerWriter) error {
		if err := w.copy("cube/preload.js", filepath.Join(source, "preload.js")); err != nil {
			return err
		}
		return w.copy("cube/conf/cube.js", filepath.Join(source, "cube.js"))
	})
	if err != nil {
		return imageOptions{}, err
	}
	return imageOptions{
		layers:           append(layers, own),
		entrypoint:       []string{"/usr/local/bin/node", "--require", "/cube/preload.js", "/cube/node_modules/@cubejs-backend/server/bin/server"},
		workingDirectory: "/cube/conf",
		user:             "1000:1000",
		environment:      []string{"DATAPLANE_VERSION=" + tag, fmt.Sprintf("DATAPLANE_BROKEN=%t", broken)},
		labels: map[string]string{
			"org.opencontainers.image.title":       "cube",
			"org.opencontainers.image.version":     tag,
			"org.opencontainers.image.description": "@cubejs-backend/server " + version + " without its native addon; see hack/dataplane",
			"org.opencontainers.image.source":      "https://github.com/quoin-dev/quoin",
		},
	}, nil
}

func layerPath(cache, name string) string { return filepath.Join(cache, name+".tar.gz") }

// dataplaneSource is the folder hack/dataplane.
func dataplaneSource() (string, error) {
	root, err := repositoryRoot()
	return filepath.Join(root, "hack", "dataplane"), err
}

// dataplaneLayers makes sure that the cache has the layers of the real server
// and returns their folder. The folder appears when all of them are whole.
func dataplaneLayers(ctx context.Context, source string, install bool) (string, error) {
	cache, err := cacheDirectory()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "dataplane")
	hash, err := dataplaneHash(source)
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, hash)
	if isFolder(target) {
		return target, nil
	}
	unlock, err := acquireLock(ctx, filepath.Join(cache, "lock"), "another localcluster is building the data plane's layers: waiting for it")
	if err != nil {
		return "", err
	}
	defer unlock()
	// Asked again under the lock: the one before us may have built them.
	if isFolder(target) {
		return target, nil
	}
	if err := ensurePackages(ctx, npmPackages, install); err != nil {
		return "", err
	}
	// Under the lock nobody else works here: what is left is of one that was killed.
	left, _ := filepath.Glob(filepath.Join(cache, "partial-*")) // the pattern is well-formed: no other error exists
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return "", err
		}
	}
	work := filepath.Join(cache, fmt.Sprintf("partial-%d", os.Getpid()))
	defer os.RemoveAll(work)
	title := fmt.Sprintf("installing the data plane %s from npm (about 2 min cold)", strings.Join(dataplaneVersions, " and "))
	return target, step(title, func() error { return buildDataplane(ctx, source, work, target) })
}

// dataplaneHash names what the layers are made from.
func dataplaneHash(source string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, dataplaneLayout, runtime.GOARCH)
	for _, folder := range dataplaneFolders() {
		for _, name := range npmFiles {
			content, err := os.ReadFile(filepath.Join(source, folder, name))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s/%s %d\n%s", folder, name, len(content), content)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// npmFiles are what npm installs from: both are committed, so that the same
// packages come every time.
var npmFiles = []string{"package.json", "package-lock.json"}

// dataplaneFolders are those of hack/dataplane that npm installs.
func dataplaneFolders() []string {
	folders := []string{layerNode}
	for _, version := range dataplaneVersions {
		folders = append(folders, "v"+version)
	}
	return folders
}

// buildDataplane installs the packages and makes the layers in a folder that
// gets its name when it is complete.
func buildDataplane(ctx context.Context, source, work, target string) error {
	for _, folder := range dataplaneFolders() {
		if err := npmInstall(ctx, filepath.Join(source, folder), filepath.Join(work, folder)); err != nil {
			return err
		}
	}
	layers := filepath.Join(work, "layers")
	if err := os.MkdirAll(layers, 0o755); err != nil {
		return err
	}
	if err := writeLayer(layerPath(layers, layerNode), func(w *layerWriter) error { return addNode(w, filepath.Join(work, layerNode)) }); err != nil {
		return err
	}
	if err := writeModules(work, layers); err != nil {
		return err
	}
	return os.Rename(layers, target)
}

// npmInstall installs exactly what the lock file names. No package runs a
// program while it is installed.
func npmInstall(ctx context.Context, source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for _, name := range npmFiles {
		if err := copyFile(filepath.Join(source, name), filepath.Join(target, name)); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, findProgram("npm"), "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = target
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci for %s: %w\n%s", filepath.Base(source), err, lastLines(string(output), 20))
	}
	return nil
}

func copyFile(source, target string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(target)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		return err
	}
	return to.Close()
}
