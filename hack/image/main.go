// Command image builds Quoin's container image without a container engine: a static binary, CA
// certificates, and a non-root user. Its entrypoint and user are those of the Dockerfile. The same
// inputs give the same digest.
//
//	go run ./hack/image --binary bin/quoin --push 127.0.0.1:15000/quoin:dev
//	go run ./hack/image --binary bin/quoin --tarball dist/quoin.tar --name quoin:dev
//	go run ./hack/image --binary quoin-amd64 --binary quoin-arm64 --layout dist/quoin_image.tar
//
// Several binaries give an image index with one image for each architecture. The digest is printed on
// standard output.
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

// options are the flags of the command.
type options struct {
	inputs
	binaries                        []string
	push, archive, layout, fullName string
}

// parse parses the command line.
func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.push, "push", "", "push the image under this name; over HTTP to registries on loopback")
	flags.StringVar(&o.archive, "tarball", "", "write a docker-archive to this file, for `ctr images import` and `docker load`")
	flags.StringVar(&o.layout, "layout", "", "write an archive of an OCI image layout to this file, for `skopeo copy oci-archive:…`")
	flags.StringVar(&o.fullName, "name", "quoin:dev", "the image's name in the docker-archive")
	flags.Func("binary", "a static binary, built for Linux; once for each architecture (default bin/quoin)", func(path string) error {
		o.binaries = append(o.binaries, path)
		return nil
	})
	flags.StringVar(&o.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "PEM bundle of CA certificates; omitted when the file does not exist")
	flags.StringVar(&o.version, "version", "", "version for the image's labels")
	flags.StringVar(&o.revision, "revision", "", "commit for the image's labels")
	flags.Func("created", "time of the sources in RFC 3339, for the image's labels", func(text string) (err error) {
		if text != "" {
			o.created, err = time.Parse(time.RFC3339, text)
		}
		return err
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if len(o.binaries) == 0 {
		o.binaries = []string{"bin/quoin"}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.push == "" && o.archive == "" && o.layout == "":
		return o, errors.New("no target: set --push, --tarball, --layout or several of them")
	case o.archive != "" && len(o.binaries) > 1:
		return o, errors.New("--tarball: a docker-archive holds one architecture: set --binary once, or --layout")
	}
	return o, nil
}

// run builds the image, writes it to the targets of the flags and prints its digest.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	built, err := buildAll(o)
	if err != nil {
		return err
	}
	if o.archive != "" {
		if err := writeArchive(built.images[0], o.archive, o.fullName); err != nil {
			return fmt.Errorf("write %s: %w", o.archive, err)
		}
	}
	if o.layout != "" {
		if err := built.writeLayout(o.layout, o.version); err != nil {
			return fmt.Errorf("write %s: %w", o.layout, err)
		}
	}
	if o.push != "" {
		if err := built.push(ctx, o.push); err != nil {
			return fmt.Errorf("push %s: %w", o.push, err)
		}
	}
	digest, err := built.digest()
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

// push pushes the image, or the index and its images.
func (b *builtImages) push(ctx context.Context, reference string) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if b.index != nil {
		return remote.WriteIndex(tag, b.index, options...)
	}
	return remote.Write(tag, b.images[0], options...)
}
