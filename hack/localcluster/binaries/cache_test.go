package binaries

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestCachedFilesAreMadeOnce(t *testing.T) {
	t.Setenv("QUOIN_CACHE", t.TempDir())
	made := 0
	files := Files{Kind: "kind", Hash: "1", Title: "files", Make: func(work, target string) error {
		made++
		return errors.Join(
			os.WriteFile(filepath.Join(work, "work"), nil, 0o644),
			os.WriteFile(filepath.Join(target, "file"), []byte("content"), 0o644),
		)
	}}
	for range 2 {
		folder, err := Cached(t.Context(), files)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(folder)
		if err != nil || len(entries) != 1 || entries[0].Name() != "file" {
			t.Errorf("%v, %v", entries, err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

func TestFailedFilesAreMadeAgain(t *testing.T) {
	t.Setenv("QUOIN_CACHE", t.TempDir())
	fails := errors.New("fails")
	attempt := func(prepare, err error) error {
		_, got := Cached(t.Context(), Files{
			Kind: "kind", Hash: "1", Title: "files",
			Prepare: func() error { return prepare }, Make: func(string, string) error { return err },
		})
		return got
	}
	for _, errs := range [][2]error{{fails, nil}, {nil, fails}} {
		if err := attempt(errs[0], errs[1]); !errors.Is(err, fails) {
			t.Errorf("error %v", err)
		}
	}
	if err := attempt(nil, nil); err != nil {
		t.Error(err)
	}
}
