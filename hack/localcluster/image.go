package main

import (
	"fmt"
	"path"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageOptions describes an image.
type imageOptions struct {
	layers           []v1.Layer // the lowest first
	entrypoint       []string
	workingDirectory string
	user             string // "uid:gid" it runs as
	environment      []string
	labels           map[string]string
}

// buildImage makes an OCI image for the nodes.
func buildImage(o imageOptions) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: imageCreated},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: o.entrypoint,
			Env:        slices.Concat([]string{"PATH=" + path.Dir(o.entrypoint[0])}, o.environment),
			Labels:     o.labels,
			User:       o.user,
			WorkingDir: o.workingDirectory,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set the image configuration: %w", err)
	}
	return mutate.AppendLayers(image, o.layers...)
}

// binaryImage describes an image of one static binary and an empty /tmp.
func binaryImage(binary, user string) (imageOptions, error) {
	layer, err := memoryLayer(func(w *layerWriter) error {
		if err := w.folder("tmp", 0o1777); err != nil {
			return err
		}
		return w.copy(path.Base(binary), binary)
	})
	if err != nil {
		return imageOptions{}, fmt.Errorf("make the image layer: %w", err)
	}
	return imageOptions{
		layers:           []v1.Layer{layer},
		entrypoint:       []string{"/" + path.Base(binary)},
		workingDirectory: "/",
		user:             user,
	}, nil
}
