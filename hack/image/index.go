package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// builtImages are the images of all architectures, and their index if there are several.
type builtImages struct {
	images []v1.Image
	index  v1.ImageIndex
}

// buildAll builds the images of all binaries.
func buildAll(o options) (*builtImages, error) {
	built := &builtImages{}
	var addenda []mutate.IndexAddendum
	var architectures []string
	for _, binary := range o.binaries {
		in := o.inputs
		in.binary = binary
		image, err := build(in)
		if err != nil {
			return nil, err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		if slices.Contains(architectures, config.Architecture) {
			return nil, fmt.Errorf("%s: another binary is for %s too", binary, config.Architecture)
		}
		architectures = append(architectures, config.Architecture)
		built.images = append(built.images, image)
		addenda = append(addenda, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	if len(addenda) > 1 {
		index, isIndex := mutate.Annotations(mutate.AppendManifests(empty.Index, addenda...), o.labels()).(v1.ImageIndex)
		if !isIndex {
			return nil, fmt.Errorf("the annotated index is not an index")
		}
		built.index = index
	}
	return built, nil
}

// digest returns the digest of the index, or of the only image.
func (b *builtImages) digest() (v1.Hash, error) {
	if b.index != nil {
		return b.index.Digest()
	}
	return b.images[0].Digest()
}

// writeLayout writes an archive of an OCI image layout. version is the name of the image in it, if not
// empty.
func (b *builtImages) writeLayout(path, version string) error {
	folder, err := os.MkdirTemp("", "quoin-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	target, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	var options []layout.Option
	if version != "" {
		options = append(options, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
	}
	if b.index != nil {
		err = target.AppendIndex(b.index, options...)
	} else {
		err = target.AppendImage(b.images[0], options...)
	}
	if err != nil {
		return err
	}
	content, err := archiveFolder(folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// archiveFolder returns a tar archive of the files below a folder, in the order of their names and
// without timestamps.
func archiveFolder(folder string) ([]byte, error) {
	var files []file
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			files = append(files, file{path: filepath.ToSlash(relative) + "/", mode: 0o755})
			return nil
		}
		content, err := os.ReadFile(path)
		files = append(files, file{path: filepath.ToSlash(relative), mode: 0o644, content: content})
		return err
	})
	if err != nil {
		return nil, err
	}
	return archive(files)
}
