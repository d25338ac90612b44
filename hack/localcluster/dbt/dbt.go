// Package dbt builds an image with real dbt from packages of PyPI, and with
// Python, git and a shell of this machine.
package dbt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/image"
)

// Version is the version of dbt-core in the image, as in requirements.txt.
const Version = "1.10.13"

// layout is increased when the layers change for the same packages.
const layout = "1"

// requirements is the file with the packages of PyPI and their hashes.
const requirements = "requirements.txt"

// Layers of the image, as files in the cache.
const (
	layerSystem   = "system"   // Python, git, the shell and their shared libraries
	layerPackages = "packages" // packages of PyPI
)

// user is the user of the image, who is also that of the pods of dbt syncs.
const user = "1000:1000"

func layerPath(cache, name string) string { return filepath.Join(cache, name+".tar.gz") }

// Source returns the folder hack/dbt.
func Source() (string, error) {
	root, err := binaries.RepositoryRoot()
	return filepath.Join(root, "hack", "dbt"), err
}

// Image builds the image. Its layers are built unless they are in the cache.
func Image(ctx context.Context, install bool) (v1.Image, error) {
	source, err := Source()
	if err != nil {
		return nil, err
	}
	cache, err := layers(ctx, source, install)
	if err != nil {
		return nil, err
	}
	return imageOf(cache)
}

// imageOf builds the image of the layers in a folder.
func imageOf(cache string) (v1.Image, error) {
	var layers []v1.Layer
	for _, name := range []string{layerSystem, layerPackages} {
		layer, err := tarball.LayerFromFile(layerPath(cache, name), tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return image.Build(image.Options{
		Layers:           layers,
		Entrypoint:       []string{"/usr/bin/dbt"},
		WorkingDirectory: "/tmp",
		User:             user,
		Environment:      []string{"LANG=C.UTF-8", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "dbt",
			"org.opencontainers.image.version":     Version,
			"org.opencontainers.image.description": "dbt with the adapter for PostgreSQL; see hack/dbt",
			"org.opencontainers.image.source":      "https://github.com/quoin-dev/quoin",
		},
	})
}

// layers returns the folder of the layers, which it builds unless they are in
// the cache.
func layers(ctx context.Context, source string, install bool) (string, error) {
	hash, err := hash(source)
	if err != nil {
		return "", err
	}
	return binaries.Cached(ctx, binaries.Files{
		Kind: "dbt", Hash: hash,
		Title:   "installing dbt " + Version + " from PyPI (about 1 min cold)",
		Prepare: func() error { return host.EnsurePackages(ctx, host.DbtPackages, install) },
		Make:    func(work, target string) error { return build(ctx, source, work, target) },
	})
}

// hash returns the hash of the inputs of the layers.
func hash(source string) (string, error) {
	content, err := os.ReadFile(filepath.Join(source, requirements))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n%s", layout, runtime.GOARCH, content)
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}
