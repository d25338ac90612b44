package binaries

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// SourceDirectory returns the folder hack/localcluster, which holds the pins.
// It is looked for from the working directory upwards, and then at the path
// that the compiler recorded.
func SourceDirectory() (string, error) {
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
			break
		}
		folder = parent
	}
	// Not before: the program may have been built in another copy of the repository.
	if _, file, _, ok := runtime.Caller(0); ok {
		if candidate := filepath.Dir(filepath.Dir(file)); isSourceDirectory(candidate) {
			return candidate, nil
		}
	}
	return "", errors.New("the folder hack/localcluster was not found: run this from inside the repository")
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
