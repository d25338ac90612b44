package modelfetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// marker records the commit in a target, in a hidden file next to it: the
// data-plane server would read a file inside it.
type marker struct {
	Commit string `json:"commit"` // lower-case hex
	Path   string `json:"path"`   // the sub folder, normalized

	target string
}

func newMarker(o options) marker {
	return marker{
		Commit: strings.ToLower(o.commit),
		Path:   filepath.ToSlash(filepath.Clean(o.path)), // "." for the whole repository
		target: filepath.Clean(o.target),
	}
}

func (m marker) file() string {
	return filepath.Join(filepath.Dir(m.target), "."+filepath.Base(m.target)+".commit")
}

// matches reports whether the target exists and holds the marker's commit. The
// URL of the repository is irrelevant: the hash of a commit identifies its
// content.
func (m marker) matches() bool {
	info, err := os.Lstat(m.target)
	if err != nil || !info.IsDir() {
		return false
	}
	data, err := os.ReadFile(m.file())
	if err != nil {
		return false
	}
	var recorded marker
	return json.Unmarshal(data, &recorded) == nil && recorded.Commit == m.Commit && recorded.Path == m.Path
}

func (m marker) remove() error {
	if err := os.Remove(m.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the marker: %w", err)
	}
	return nil
}

// write records the commit atomically, by a rename.
func (m marker) write() error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the marker: %w", err)
	}
	temporary := m.file() + ".new"
	if err := os.WriteFile(temporary, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the marker: %w", err)
	}
	if err := os.Rename(temporary, m.file()); err != nil {
		return fmt.Errorf("write the marker: %w", err)
	}
	return nil
}
