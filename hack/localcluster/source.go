package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// sourceDirectory returns the folder of this program's source: the pins are
// read and built from there. The path that the compiler recorded comes first,
// because it does not depend on where the program is called from; a walk
// upwards from the working directory covers a binary that was built elsewhere.
func sourceDirectory() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && isSourceDirectory(filepath.Dir(file)) {
		return filepath.Dir(file), nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		candidate := filepath.Join(folder, "hack", "localcluster")
		if isSourceDirectory(candidate) {
			return candidate, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("the folder hack/localcluster was not found: run this from inside the repository")
		}
		folder = parent
	}
}

func isSourceDirectory(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "kubernetes", "go.mod"))
	return err == nil
}

// repositoryRoot returns the root folder of the repository.
func repositoryRoot() (string, error) {
	source, err := sourceDirectory()
	if err != nil {
		return "", err
	}
	return filepath.Dir(filepath.Dir(source)), nil
}
