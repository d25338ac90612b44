package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// runPush is the command "push". It prints one line for each image, in the
// form that a pod or a ReleaseChannel shows: repository:version@digest.
func runPush(ctx context.Context, args []string) error {
	var o pushOptions
	flags := newFlagSet("push")
	dir := flags.String("dir", defaultDirectory, "folder of the cluster")
	flags.BoolVar(&o.broken, "broken", false, "push an image that exits at once")
	flags.BoolVar(&o.server, "server", false, "push the real server; where the samples run it, that is so without the flag")
	flags.BoolVar(&o.installPackages, "install-packages", false, "with the real server: install npm when it is missing")
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
	o.repository, o.versions = positional[0], positional[1:]
	if o.server && isStore(o.repository) {
		return errors.New("push: --server has no store")
	}
	o.server = o.server || c.Dataplane && !isStore(o.repository)
	images, err := c.push(ctx, o)
	for _, image := range images {
		fmt.Println(image)
	}
	if err == nil && o.broken && c.Nodes == nodesSimulated {
		noteBrokenTags(o.versions)
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
