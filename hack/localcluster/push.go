package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// runPush is the command "push". It prints one line for each image, in the
// form that a pod or a ReleaseChannel shows: repository:version@digest.
func runPush(ctx context.Context, args []string) error {
	flags := newFlagSet("push")
	dir := flags.String("dir", defaultDirectory, "folder of the cluster")
	broken := flags.Bool("broken", false, "push an image that exits at once")
	positional, err := parseMixed(flags, args)
	if err != nil {
		return err
	}
	if len(positional) < 2 {
		return errors.New("push: want a repository and at least one version, as in: push cube v1.2.4")
	}
	c, exists, err := loadCluster(*dir)
	if err != nil {
		return err
	}
	if !exists || !c.processes().running("registry") {
		return fmt.Errorf("no registry runs for %s: start it with localcluster up", c.Dir)
	}
	images, err := c.pushSamples(ctx, positional[0], positional[1:], *broken)
	for _, image := range images {
		fmt.Println(image)
	}
	if err == nil && *broken && c.Nodes == nodesSimulated {
		noteBrokenTags(positional[1:])
	}
	return err
}

// noteBrokenTags says that simulated nodes never run an image.
func noteBrokenTags(versions []string) {
	for _, version := range versions {
		if !strings.Contains(version, "-broken") {
			say("note: simulated nodes do not run images and will report %s as healthy; a tag with -broken fails there", version)
		}
	}
}

// pushSamples pushes one sample image for each version and returns their
// references. The repositories whose name ends in "-store" get the store.
func (c *cluster) pushSamples(ctx context.Context, repository string, versions []string, broken bool) ([]string, error) {
	binary, err := c.buildSampleServer(ctx)
	if err != nil {
		return nil, err
	}
	var pushed []string
	for _, version := range versions {
		reference, err := name.NewTag(c.registryAddress()+"/"+repository+":"+version, name.StrictValidation, name.Insecure)
		if err != nil {
			return pushed, err
		}
		image, err := buildImage(sampleImage(binary, repository, version, broken))
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

// sampleImage describes the image of one version: the binary is the same, the
// configuration and so the digest differ.
func sampleImage(binary, repository, version string, broken bool) imageOptions {
	role := "server"
	if strings.HasSuffix(repository, "-store") {
		role = "store"
	}
	return imageOptions{
		binary: binary,
		user:   "1000:1000",
		environment: []string{
			"SAMPLESERVER_VERSION=" + version,
			"SAMPLESERVER_ROLE=" + role,
			fmt.Sprintf("SAMPLESERVER_BROKEN=%t", broken),
		},
		labels: map[string]string{
			"org.opencontainers.image.title":       path.Base(repository),
			"org.opencontainers.image.version":     version,
			"org.opencontainers.image.description": "Stand-in for the data plane in a local cluster; see hack/sampleserver",
			"org.opencontainers.image.source":      "https://github.com/quoin-dev/quoin",
		},
	}
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
