package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSharedLibraries(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := SharedLibraries(shell)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"libc.so", "ld-linux"} {
		if !slices.ContainsFunc(libraries, func(path string) bool { return strings.HasPrefix(filepath.Base(path), want) }) {
			t.Errorf("no %s in %q", want, libraries)
		}
	}
	if _, err := SharedLibraries(os.DevNull); err == nil {
		t.Error("no error for a file that is not a binary")
	}
}

// TestOwnLibrariesAreOmitted: a Python package that has a library of its own
// loads it from there.
func TestOwnLibrariesAreOmitted(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	libc, err := findLibrary("libc.so.6")
	if err != nil {
		t.Skip("SKIPPED LOUDLY: the libraries are those of Debian")
	}
	libraries, err := SharedLibraries(shell, libc)
	if err != nil || slices.Contains(libraries, libc) {
		t.Errorf("%q, %v", libraries, err)
	}
}
