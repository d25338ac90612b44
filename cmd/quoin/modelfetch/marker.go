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

// marker records what a target holds, in a hidden file next to it: the
// data-plane server reads every file inside.
type marker struct {
	Commit string `json:"commit"` // lower-case hex
	Path   string `json:"path"`   // the sub folder, cleaned

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

// holds tells whether the target is there and is what the marker wants. The
// repository's URL does not matter: a commit's name says what is in it.
func (m marker) holds() bool {
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

// write records the commit, by a rename: half a marker is none.
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
