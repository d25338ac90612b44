// Package image builds OCI images without a container engine.
package image

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

// Options describe an image.
type Options struct {
	Layers           []v1.Layer // lowest first
	Entrypoint       []string
	WorkingDirectory string
	User             string // "uid:gid"
	Environment      []string
	Labels           map[string]string
}

// Build builds an OCI image for the nodes.
func Build(o Options) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: Created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: o.Entrypoint,
			Env:        slices.Concat([]string{"PATH=" + path.Dir(o.Entrypoint[0])}, o.Environment),
			Labels:     o.Labels,
			User:       o.User,
			WorkingDir: o.WorkingDirectory,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set the image configuration: %w", err)
	}
	return mutate.AppendLayers(image, o.Layers...)
}

// Binary returns the options of an image with one static binary and an empty
// /tmp.
func Binary(binary, user string) (Options, error) {
	layer, err := MemoryLayer(func(w *LayerWriter) error {
		if err := w.Folder("tmp", 0o1777); err != nil {
			return err
		}
		return w.Copy(path.Base(binary), binary)
	})
	if err != nil {
		return Options{}, fmt.Errorf("build the image layer: %w", err)
	}
	return Options{
		Layers:           []v1.Layer{layer},
		Entrypoint:       []string{"/" + path.Base(binary)},
		WorkingDirectory: "/",
		User:             user,
	}, nil
}
