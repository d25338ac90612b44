package dataplane

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

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/image"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// Versions are the versions of the real server, the newest last. Each
// has a folder in hack/dataplane with what npm installs.
var Versions = []string{"0.34.62", "0.35.81"}

// layout goes up when the same packages make other layers.
const layout = "1"

// Layers of the real server's images, as files of the cache. A version has a
// layer of its own besides these, for what differs.
const (
	layerNode    = "node"    // the interpreter and the libraries that it needs
	layerModules = "modules" // npm packages that all versions have
)

// versionOf is the version of the server that a tag gets: its own when
// the tag names one, otherwise the newest.
func versionOf(tag string) string {
	for _, version := range Versions {
		if strings.TrimPrefix(tag, "v") == version {
			return version
		}
	}
	return Versions[len(Versions)-1]
}

// Image describes the image of the real server under a tag. Two tags
// with one version of the server have different digests: the tag is in them.
func Image(cache, source, tag string, broken bool) (image.Options, error) {
	version := versionOf(tag)
	var layers []v1.Layer
	for _, name := range []string{layerNode, layerModules, version} {
		layer, err := tarball.LayerFromFile(layerPath(cache, name), tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return image.Options{}, err
		}
		layers = append(layers, layer)
	}
	own, err := image.MemoryLayer(func(w *image.LayerWriter) error {
		if err := w.Copy("cube/preload.js", filepath.Join(source, "preload.js")); err != nil {
			return err
		}
		return w.Copy("cube/conf/cube.js", filepath.Join(source, "cube.js"))
	})
	if err != nil {
		return image.Options{}, err
	}
	return image.Options{
		Layers:           append(layers, own),
		Entrypoint:       []string{"/usr/local/bin/node", "--require", "/cube/preload.js", "/cube/node_modules/@cubejs-backend/server/bin/server"},
		WorkingDirectory: "/cube/conf",
		User:             "1000:1000",
		Environment:      []string{"DATAPLANE_VERSION=" + tag, fmt.Sprintf("DATAPLANE_BROKEN=%t", broken)},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "cube",
			"org.opencontainers.image.version":     tag,
			"org.opencontainers.image.description": "@cubejs-backend/server " + version + " without its native addon; see hack/dataplane",
			"org.opencontainers.image.source":      "https://github.com/quoin-dev/quoin",
		},
	}, nil
}

func layerPath(cache, name string) string { return filepath.Join(cache, name+".tar.gz") }

// Source is the folder hack/dataplane.
func Source() (string, error) {
	root, err := binaries.RepositoryRoot()
	return filepath.Join(root, "hack", "dataplane"), err
}

// Layers makes sure that the cache has the layers of the real server
// and returns their folder. The folder appears when all of them are whole.
func Layers(ctx context.Context, source string, install bool) (string, error) {
	cache, err := binaries.CacheDirectory()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "dataplane")
	hash, err := hash(source)
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, hash)
	if host.IsFolder(target) {
		return target, nil
	}
	unlock, err := process.Lock(ctx, filepath.Join(cache, "lock"), "another localcluster is building the data plane's layers: waiting for it")
	if err != nil {
		return "", err
	}
	defer unlock()
	// Asked again under the lock: the one before us may have built them.
	if host.IsFolder(target) {
		return target, nil
	}
	if err := host.EnsurePackages(ctx, host.NPMPackages, install); err != nil {
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
	title := fmt.Sprintf("installing the data plane %s from npm (about 2 min cold)", strings.Join(Versions, " and "))
	return target, progress.Step(title, func() error { return build(ctx, source, work, target) })
}

// hash names what the layers are made from.
func hash(source string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, layout, runtime.GOARCH)
	for _, folder := range folders() {
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

// folders are those of hack/dataplane that npm installs.
func folders() []string {
	folders := []string{layerNode}
	for _, version := range Versions {
		folders = append(folders, "v"+version)
	}
	return folders
}

// build installs the packages and makes the layers in a folder that
// gets its name when it is complete.
func build(ctx context.Context, source, work, target string) error {
	for _, folder := range folders() {
		if err := npmInstall(ctx, filepath.Join(source, folder), filepath.Join(work, folder)); err != nil {
			return err
		}
	}
	layers := filepath.Join(work, "layers")
	if err := os.MkdirAll(layers, 0o755); err != nil {
		return err
	}
	if err := image.WriteLayer(layerPath(layers, layerNode), func(w *image.LayerWriter) error { return addNode(w, filepath.Join(work, layerNode)) }); err != nil {
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
	cmd := exec.CommandContext(ctx, host.FindProgram("npm"), "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = target
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci for %s: %w\n%s", filepath.Base(source), err, process.LastLines(string(output), 20))
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
