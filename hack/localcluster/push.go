package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// pushOptions say which images are pushed.
type pushOptions struct {
	repository      string
	versions        []string // the tags
	broken          bool     // they exit at once
	server          bool     // the real server instead of the sample
	installPackages bool
}

// isStore tells the repositories whose images play the store.
func isStore(repository string) bool { return strings.HasSuffix(repository, "-store") }

// push pushes one image for each version and returns their references.
func (c *cluster) push(ctx context.Context, o pushOptions) ([]string, error) {
	describe, err := c.images(ctx, o)
	if err != nil {
		return nil, err
	}
	var pushed []string
	for _, version := range o.versions {
		reference, err := name.NewTag(c.registryAddress()+"/"+o.repository+":"+version, name.StrictValidation, name.Insecure)
		if err != nil {
			return pushed, err
		}
		options, err := describe(version)
		if err != nil {
			return pushed, err
		}
		image, err := buildImage(options)
		if err != nil {
			return pushed, err
		}
		if err := remote.Write(reference, image, remote.WithContext(ctx)); err != nil {
			return pushed, fmt.Errorf("push %s: %w", reference, err)
		}
		digest, err := image.Digest()
		if err != nil {
			return pushed, err
		}
		pushed = append(pushed, reference.String()+"@"+digest.String())
	}
	return pushed, nil
}

// images prepares what the images have in common and returns what describes
// that of one version.
func (c *cluster) images(ctx context.Context, o pushOptions) (func(version string) (imageOptions, error), error) {
	if !o.server {
		binary, err := c.buildSampleServer(ctx)
		return func(version string) (imageOptions, error) {
			return sampleImage(binary, o.repository, version, o.broken)
		}, err
	}
	source, err := dataplaneSource()
	if err != nil {
		return nil, err
	}
	layers, err := dataplaneLayers(ctx, source, o.installPackages)
	return func(version string) (imageOptions, error) { return dataplaneImage(layers, source, version, o.broken) }, err
}

// sampleImage describes the image of one version: the binary is the same, the
// configuration and so the digest differ.
func sampleImage(binary, repository, version string, broken bool) (imageOptions, error) {
	options, err := binaryImage(binary, "1000:1000")
	if err != nil {
		return imageOptions{}, err
	}
	role := "server"
	if isStore(repository) {
		role = "store"
	}
	options.environment = []string{
		"SAMPLESERVER_VERSION=" + version,
		"SAMPLESERVER_ROLE=" + role,
		fmt.Sprintf("SAMPLESERVER_BROKEN=%t", broken),
	}
	options.labels = map[string]string{
		"org.opencontainers.image.title":       path.Base(repository),
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.description": "Stand-in for the data plane in a local cluster; see hack/sampleserver",
		"org.opencontainers.image.source":      "https://github.com/quoin-dev/quoin",
	}
	return options, nil
}

// buildSampleServer builds hack/sampleserver for the nodes. Without paths and
// build ids in it, the same source gives the same image digests.
func (c *cluster) buildSampleServer(ctx context.Context) (string, error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	binary := c.path("bin", "sampleserver")
	return binary, goBuild(ctx, goBuildOptions{
		folder:    root,
		goPackage: "./hack/sampleserver",
		output:    binary,
		flags:     []string{"-trimpath", "-ldflags", "-s -w -buildid="},
		goos:      "linux",
	})
}
