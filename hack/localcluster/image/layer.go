package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Created is the fixed timestamp of every image and its files, so that the same
// content has the same digest.
var Created = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// LayerWriter writes the files of an image layer in the order of the calls. It
// adds parent folders automatically.
type LayerWriter struct {
	tar     *tar.Writer
	folders map[string]bool
}

// Folder adds a folder and its parents unless they exist.
func (w *LayerWriter) Folder(name string, mode int64) error {
	if name == "." || w.folders[name] {
		return nil
	}
	if err := w.Folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	w.folders[name] = true
	return w.tar.WriteHeader(&tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode, ModTime: Created})
}

// file adds a file with the content of a reader.
func (w *LayerWriter) file(name string, mode, size int64, content io.Reader) error {
	if err := w.Folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: size, ModTime: Created}
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w.tar, content)
	return err
}

// Text adds a file that all users can read.
func (w *LayerWriter) Text(name, content string) error {
	return w.file(name, 0o644, int64(len(content)), bytes.NewReader([]byte(content)))
}

// Program adds an executable file.
func (w *LayerWriter) Program(name, content string) error {
	return w.file(name, 0o755, int64(len(content)), bytes.NewReader([]byte(content)))
}

// Tree adds the regular files of a folder of this machine, by their path below
// it.
func (w *LayerWriter) Tree(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return w.Copy(filepath.ToSlash(name), path)
	})
}

// Copy adds a file of this machine. It normalizes the mode to 0755 or 0644.
func (w *LayerWriter) Copy(name, source string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return w.file(name, readableMode(info.Mode()), info.Size(), file)
}

func readableMode(mode fs.FileMode) int64 {
	if mode&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// WriteLayer writes a compressed layer to a file; fill adds the files.
func WriteLayer(target string, fill func(*LayerWriter) error) (err error) {
	file, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// The registry is on this machine: speed matters more than size.
	compressed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := fillLayer(compressed, fill); err != nil {
		return err
	}
	return compressed.Close()
}

// MemoryLayer returns a layer in memory; fill adds the files.
func MemoryLayer(fill func(*LayerWriter) error) (v1.Layer, error) {
	var archive bytes.Buffer
	if err := fillLayer(&archive, fill); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

func fillLayer(out io.Writer, fill func(*LayerWriter) error) error {
	w := &LayerWriter{tar: tar.NewWriter(out), folders: map[string]bool{}}
	if err := fill(w); err != nil {
		return err
	}
	return w.tar.Close()
}
