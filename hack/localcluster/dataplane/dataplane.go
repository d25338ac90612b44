// Package dataplane builds images of the real data-plane server from npm
// packages.
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
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/image"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// Versions are the versions of the real server, newest last. Each has a folder
// in hack/dataplane with its npm packages.
var Versions = []string{"0.34.62", "0.35.81", "1.6.57"}

// SampleVersion is the newest version that is in the registry at first, so the one that the channel of the samples offers.
const SampleVersion = "0.35.81"

// layout is increased when the layers change for the same packages.
const layout = "1"

// Layers of the real server's images, as files in the cache. Each version has
// another layer with its own packages.
const (
	layerNode    = "node"    // the interpreter and its shared libraries
	layerModules = "modules" // npm packages that all versions share
)

// versionOf returns the version of the server for a tag: the newest one that is
// not newer than the tag, and the oldest for tags before it. Tags that are not
// versions have the newest.
func versionOf(tag string) string {
	numbers, ok := numbersOf(tag)
	if !ok {
		return Versions[len(Versions)-1]
	}
	found := Versions[0]
	for _, version := range Versions {
		if other, _ := numbersOf(version); slices.Compare(other, numbers) <= 0 {
			found = version
		}
	}
	return found
}

// numbersOf parses the numbers of a version, which may have a prerelease.
func numbersOf(version string) ([]int, bool) {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "-")
	var numbers []int
	for part := range strings.SplitSeq(version, ".") {
		number, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, number)
	}
	return numbers, true
}

// scripts are the files of hack/dataplane that are loaded before the server.
var scripts = []string{"preload.js", "native/index.js", "native/execute.js", "native/results.js", "native/sql.js"}

// Image returns the options of the real server's image for a tag. The tag is
// part of the image, so two tags of one version have different digests.
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
		for _, name := range scripts {
			if err := w.Copy("cube/"+name, filepath.Join(source, name)); err != nil {
				return err
			}
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

// Source returns the folder hack/dataplane.
func Source() (string, error) {
	root, err := binaries.RepositoryRoot()
	return filepath.Join(root, "hack", "dataplane"), err
}

// Layers builds the layers of the real server unless they are in the cache, and
// returns their folder. The folder is created atomically.
func Layers(ctx context.Context, source string, install bool) (string, error) {
	hash, err := hash(source)
	if err != nil {
		return "", err
	}
	return binaries.Cached(ctx, binaries.Files{
		Kind: "dataplane", Hash: hash,
		Title:   fmt.Sprintf("installing the data plane %s from npm (about 3 min cold)", strings.Join(Versions, ", ")),
		Prepare: func() error { return host.EnsurePackages(ctx, host.NPMPackages, install) },
		Make:    func(work, target string) error { return build(ctx, source, work, target) },
	})
}

// hash returns the hash of the inputs of the layers.
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

// npmFiles are the inputs of npm. Both are committed, so that installations are
// reproducible.
var npmFiles = []string{"package.json", "package-lock.json"}

// folders returns the folders of hack/dataplane with npm packages.
func folders() []string {
	folders := []string{layerNode}
	for _, version := range Versions {
		folders = append(folders, "v"+version)
	}
	return folders
}

// build installs the packages in the folder work, and writes the layers.
func build(ctx context.Context, source, work, layers string) error {
	for _, folder := range folders() {
		if err := npmInstall(ctx, filepath.Join(source, folder), filepath.Join(work, folder)); err != nil {
			return err
		}
	}
	if err := image.WriteLayer(layerPath(layers, layerNode), func(w *image.LayerWriter) error { return addNode(w, filepath.Join(work, layerNode)) }); err != nil {
		return err
	}
	return writeModules(work, layers)
}

// npmInstall installs the packages of the lock file, without running install
// scripts.
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
