// Package bundletest reads support archives in tests.
package bundletest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Files returns the files of an archive by name. All of them must be private to their owner, and have names of their own.
func Files(archive io.Reader) (map[string]string, error) {
	compressed, err := gzip.NewReader(archive)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		const private = 0o600
		if header.Mode != private {
			return nil, fmt.Errorf("%s has the mode %o, want %o", header.Name, header.Mode, private)
		}
		if _, found := files[header.Name]; found {
			return nil, fmt.Errorf("%s is in the archive twice", header.Name)
		}
		files[header.Name] = string(data)
	}
}
