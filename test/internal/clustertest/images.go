package clustertest

import (
	"context"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"time"

	ociname "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// StartRegistry starts an image registry on the loopback interface, which runs until the context ends, and returns its
// address.
func StartRegistry(ctx context.Context) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return listener.Addr().String(), nil
}

// PushImages pushes an image for each version to a repository, with the tag v<version>. Their digests differ.
func PushImages(ctx context.Context, repository string, versions ...string) error {
	for _, version := range versions {
		image, err := random.Image(64, 1)
		if err != nil {
			return err
		}
		tag, err := ociname.NewTag(repository + ":v" + version)
		if err != nil {
			return err
		}
		if err := remote.Write(tag, image, remote.WithContext(ctx)); err != nil {
			return err
		}
	}
	return nil
}
