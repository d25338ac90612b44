package product

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/dataplane"
	"github.com/quoin-dev/quoin/hack/localcluster/image"
)

// PushOptions describe the images to push.
type PushOptions struct {
	Repository      string
	Versions        []string // the tags
	Broken          bool     // the images exit immediately
	Server          bool     // the real server instead of the sample
	InstallPackages bool
}

// IsStore reports whether images of a repository have the role of the store.
func IsStore(repository string) bool { return strings.HasSuffix(repository, "-store") }

// Push pushes an image for each version and returns the references.
func Push(ctx context.Context, c *cluster.Cluster, o PushOptions) ([]string, error) {
	describe, err := images(ctx, c, o)
	if err != nil {
		return nil, err
	}
	var pushed []string
	for _, version := range o.Versions {
		options, err := describe(version)
		if err != nil {
			return pushed, err
		}
		image, err := image.Build(options)
		if err != nil {
			return pushed, err
		}
		reference, err := pushImage(ctx, c.RegistryAddress()+"/"+o.Repository+":"+version, image)
		if err != nil {
			return pushed, err
		}
		pushed = append(pushed, reference)
	}
	return pushed, nil
}

// pushImage pushes an image to the cluster's registry and returns its reference
// with the digest.
func pushImage(ctx context.Context, tag string, image v1.Image) (string, error) {
	reference, err := name.NewTag(tag, name.StrictValidation, name.Insecure)
	if err != nil {
		return "", err
	}
	if err := remote.Write(reference, image, remote.WithContext(ctx)); err != nil {
		return "", fmt.Errorf("push %s: %w", reference, err)
	}
	digest, err := image.Digest()
	return reference.String() + "@" + digest.String(), err
}

// images prepares the common parts of the images and returns a function that
// returns the options of a version's image.
func images(ctx context.Context, c *cluster.Cluster, o PushOptions) (func(version string) (image.Options, error), error) {
	if !o.Server {
		binary, err := buildSampleServer(ctx, c)
		return func(version string) (image.Options, error) {
			return sampleImage(binary, o.Repository, version, o.Broken)
		}, err
	}
	source, err := dataplane.Source()
	if err != nil {
		return nil, err
	}
	layers, err := dataplane.Layers(ctx, source, o.InstallPackages)
	return func(version string) (image.Options, error) { return dataplane.Image(layers, source, version, o.Broken) }, err
}

// sampleImage returns the options of a version's image. The binary is the same
// for all versions; the configuration and the digest differ.
func sampleImage(binary, repository, version string, broken bool) (image.Options, error) {
	options, err := image.Binary(binary, "1000:1000")
	if err != nil {
		return image.Options{}, err
	}
	role := "server"
	if IsStore(repository) {
		role = "store"
	}
	options.Environment = []string{
		"SAMPLESERVER_VERSION=" + version,
		"SAMPLESERVER_ROLE=" + role,
		fmt.Sprintf("SAMPLESERVER_BROKEN=%t", broken),
	}
	options.Labels = map[string]string{
		"org.opencontainers.image.title":       path.Base(repository),
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.description": "Stand-in for the data plane in a local cluster; see hack/sampleserver",
		"org.opencontainers.image.source":      "https://github.com/quoin-dev/quoin",
	}
	return options, nil
}

// buildSampleServer builds hack/sampleserver for the nodes, reproducibly:
// without paths and build IDs.
func buildSampleServer(ctx context.Context, c *cluster.Cluster) (string, error) {
	root, err := binaries.RepositoryRoot()
	if err != nil {
		return "", err
	}
	binary := c.Path("bin", "sampleserver")
	return binary, binaries.GoBuild(ctx, binaries.GoBuildOptions{
		Folder:    root,
		GoPackage: "./hack/sampleserver",
		Output:    binary,
		Flags:     []string{"-trimpath", "-ldflags", "-s -w -buildid="},
		Goos:      "linux",
	})
}
