package binaries

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// SourceDirectory returns the folder hack/localcluster, which holds the pins.
// The path that the compiler recorded comes first, because it does not depend
// on the working directory; a walk upwards from the working directory covers a
// binary that was built elsewhere.
func SourceDirectory() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok {
		if candidate := filepath.Dir(filepath.Dir(file)); isSourceDirectory(candidate) {
			return candidate, nil
		}
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

// RepositoryRoot returns the root folder of the repository.
func RepositoryRoot() (string, error) {
	source, err := SourceDirectory()
	if err != nil {
		return "", err
	}
	return filepath.Dir(filepath.Dir(source)), nil
}
