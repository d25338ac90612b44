package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/quoin-dev/quoin/hack/localcluster/dbt"
)

// runDbtImage is the command "dbt-image". It prints the image's reference with
// its digest.
func runDbtImage(ctx context.Context, args []string) error {
	flags := newFlagSet("dbt-image")
	push := flags.String("push", "", "push the image under this name; over HTTP to registries on loopback")
	archive := flags.String("tarball", "", "write a docker-archive to this file")
	install := flags.Bool("install-packages", false, "install missing Debian packages")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if (*push == "") == (*archive == "") {
		return errors.New("dbt-image: set --push or --tarball")
	}
	full := *push
	if full == "" {
		full = "dbt:" + dbt.Version
	}
	tag, err := name.NewTag(full)
	if err != nil {
		return fmt.Errorf("dbt-image: --push: %w", err)
	}
	image, err := dbt.Image(ctx, *install)
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	if *push != "" {
		err = remote.Write(tag, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	} else {
		err = errors.Join(os.MkdirAll(filepath.Dir(*archive), 0o755), tarball.WriteToFile(*archive, tag, image))
	}
	if err != nil {
		return err
	}
	fmt.Println(full + "@" + digest.String())
	return nil
}
