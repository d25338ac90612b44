package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestFilesAreCurrent: config/argocd is generated.
func TestFilesAreCurrent(t *testing.T) {
	if err := run(root, true); err != nil {
		t.Error(err)
	}
}

// TestCheckFindsDifferences: a missing, a changed and a left-over file; run then corrects all of them.
func TestCheckFindsDifferences(t *testing.T) {
	folder := t.TempDir()
	if err := run(folder, true); err == nil {
		t.Error("an empty folder is current")
	}
	if err := run(folder, false); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(folder, "config/argocd/argocd-cm.yaml")
	leftOver := filepath.Join(folder, "config/argocd/platform.quoin.dev/Account/testdata/old.yaml")
	for _, file := range []string{changed, leftOver} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(folder, true); err == nil || !strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("%s: error %v", file, err)
		}
	}
	for _, check := range []bool{false, true} {
		if err := run(folder, check); err != nil {
			t.Errorf("check %t: %v", check, err)
		}
	}
}
