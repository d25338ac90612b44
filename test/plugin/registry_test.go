package plugin_test

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

// startRegistry starts an image registry with versions, and returns the repository.
func startRegistry(ctx context.Context, versions ...string) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	repository := listener.Addr().String() + "/cube"
	for _, version := range versions {
		image, err := random.Image(64, 1)
		if err != nil {
			return "", err
		}
		tag, err := ociname.NewTag(repository + ":v" + version)
		if err != nil {
			return "", err
		}
		if err := remote.Write(tag, image, remote.WithContext(ctx)); err != nil {
			return "", err
		}
	}
	return repository, nil
}
