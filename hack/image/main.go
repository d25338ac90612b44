// Command image builds Quoin's container image without a container engine: a static binary, CA
// certificates, and a non-root user. Its entrypoint and user are those of the Dockerfile. The same
// inputs give the same digest.
//
//	go run ./hack/image --binary bin/quoin --push 127.0.0.1:15000/quoin:dev
//	go run ./hack/image --binary bin/quoin --tarball dist/quoin.tar --name quoin:dev
//
// The digest is printed on standard output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}

// run builds the image, writes it to the targets of the flags and prints its digest.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var (
		in       inputs
		push     = flags.String("push", "", "push the image under this name; over HTTP to registries on loopback")
		archive  = flags.String("tarball", "", "write a docker-archive to this file, for `ctr images import` and `docker load`")
		fullName = flags.String("name", "quoin:dev", "the image's name in the docker-archive")
	)
	flags.StringVar(&in.binary, "binary", "bin/quoin", "the static binary, built for Linux")
	flags.StringVar(&in.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "PEM bundle of CA certificates; omitted when the file does not exist")
	flags.StringVar(&in.version, "version", "", "version for the image's labels")
	flags.StringVar(&in.revision, "revision", "", "commit for the image's labels")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *push == "" && *archive == "" {
		return errors.New("no target: set --push, --tarball or both")
	}
	image, err := build(in)
	if err != nil {
		return err
	}
	if *archive != "" {
		if err := writeArchive(image, *archive, *fullName); err != nil {
			return fmt.Errorf("write %s: %w", *archive, err)
		}
	}
	if *push != "" {
		if err := pushImage(ctx, image, *push); err != nil {
			return fmt.Errorf("push %s: %w", *push, err)
		}
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}

func writeArchive(image v1.Image, path, fullName string) error {
	tag, err := name.NewTag(fullName)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return tarball.WriteToFile(path, tag, image)
}

// pushTimeout limits a push to an unresponsive registry.
const pushTimeout = 10 * time.Minute

func pushImage(ctx context.Context, image v1.Image, reference string) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	return remote.Write(tag, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}
