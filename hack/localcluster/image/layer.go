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
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Created is the time of every image and of every file in it: a fixed one,
// so that the same content always has the same digest.
var Created = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// LayerWriter writes the files of an image layer. It makes the folders above a
// file by itself; the order of the files is the caller's.
type LayerWriter struct {
	tar     *tar.Writer
	folders map[string]bool
}

// Folder adds a folder, and those above it, unless they are there.
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

// file adds a file with the content that a reader has.
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

// Text adds a file that is readable by all.
func (w *LayerWriter) Text(name, content string) error {
	return w.file(name, 0o644, int64(len(content)), bytes.NewReader([]byte(content)))
}

// Copy adds a file of this machine; of its mode only whether it can be run counts.
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

// WriteLayer writes a layer, compressed, to a file: fill adds what is in it.
func WriteLayer(target string, fill func(*LayerWriter) error) (err error) {
	file, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// Images go to a registry on this machine: speed counts more than size.
	compressed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := fillLayer(compressed, fill); err != nil {
		return err
	}
	return compressed.Close()
}

// MemoryLayer makes a small layer.
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
