package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// libraryFolders are Debian's folders of shared libraries.
var libraryFolders = []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib"}

// SharedLibraries returns the paths of the loader and of the shared libraries
// of this machine that binaries need, including indirect ones. Libraries whose
// file name is that of a binary are omitted.
func SharedLibraries(binaries ...string) ([]string, error) {
	own := map[string]bool{}
	for _, binary := range binaries {
		own[filepath.Base(binary)] = true
	}
	found := map[string]bool{}
	for waiting := slices.Clone(binaries); len(waiting) > 0; waiting = waiting[1:] {
		needed, err := neededLibraries(waiting[0], own)
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

// neededLibraries returns the loader and the direct shared libraries of a file,
// without those of the image's own.
func neededLibraries(file string, own map[string]bool) ([]string, error) {
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
		if own[name] {
			continue
		}
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
