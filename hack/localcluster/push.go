package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/product"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// runPush is the command "push". It prints a line for each image in the format
// repository:version@digest, as pods and ReleaseChannels show it.
func runPush(ctx context.Context, args []string) error {
	var o product.PushOptions
	flags := newFlagSet("push")
	dir := flags.String("dir", defaultDirectory, "folder of the cluster")
	flags.BoolVar(&o.Broken, "broken", false, "push an image that exits immediately")
	flags.BoolVar(&o.Server, "server", false, "push the real server; implied on clusters whose samples run it")
	flags.BoolVar(&o.InstallPackages, "install-packages", false, "with the real server: install npm if it is missing")
	positional, err := parseMixed(flags, args)
	if err != nil {
		return err
	}
	if len(positional) < 2 {
		return errors.New("push: want a repository and at least one version, as in: push cube v1.2.4")
	}
	c, exists, err := cluster.Load(*dir)
	if err != nil {
		return err
	}
	if !exists || !c.Daemons().Running("registry") {
		return fmt.Errorf("the registry of %s is not running: start it with localcluster up", c.Dir)
	}
	o.Repository, o.Versions = positional[0], positional[1:]
	if o.Server && product.IsStore(o.Repository) {
		return errors.New("push: --server has no store")
	}
	o.Server = o.Server || c.Dataplane && !product.IsStore(o.Repository)
	images, err := product.Push(ctx, c, o)
	for _, image := range images {
		fmt.Println(image)
	}
	if err == nil && o.Broken && c.Nodes == cluster.NodesSimulated {
		noteBrokenTags(o.Versions)
	}
	return err
}

// noteBrokenTags prints a note for tags that simulated nodes do not treat as
// broken.
func noteBrokenTags(versions []string) {
	for _, version := range versions {
		if !strings.Contains(version, "-broken") {
			progress.Infof("note: simulated nodes do not run images and report %s as ready; only tags with -broken fail", version)
		}
	}
}
