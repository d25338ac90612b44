package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageCreated is the creation time of every image: a fixed one, so that the
// same content always has the same digest.
var imageCreated = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// imageOptions describes an image of one static binary.
type imageOptions struct {
	binary      string // path of the binary on this machine
	user        string // "uid:gid" it runs as
	environment []string
	labels      map[string]string
}

// buildImage makes an OCI image that holds one static binary and an empty /tmp.
func buildImage(o imageOptions) (v1.Image, error) {
	content, err := imageLayer(o.binary)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make the image layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: imageCreated},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/" + path.Base(o.binary)},
			Env:        slices.Concat([]string{"PATH=/"}, o.environment),
			Labels:     o.labels,
			User:       o.user,
			WorkingDir: "/",
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set the image configuration: %w", err)
	}
	return mutate.AppendLayers(image, layer)
}

// imageLayer returns the tar archive of the image's only layer.
func imageLayer(binary string) ([]byte, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	if err := writer.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777, ModTime: imageCreated}); err != nil {
		return nil, err
	}
	header := &tar.Header{Name: path.Base(binary), Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content)), ModTime: imageCreated}
	if err := writer.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
