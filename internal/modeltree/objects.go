package modeltree

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// Reference is an object that another one refers to.
type Reference struct {
	Hash plumbing.Hash
	Type plumbing.ObjectType
}

// References returns the objects that an object refers to, those of a commit with its tree first. It
// returns an error if the object is malformed. The commits of submodules are left out: they are in
// another repository.
func References(t plumbing.ObjectType, data []byte) ([]Reference, error) {
	switch t {
	case plumbing.BlobObject:
		return nil, nil
	case plumbing.CommitObject:
		return commitReferences(data)
	case plumbing.TagObject:
		return tagReferences(data)
	case plumbing.TreeObject:
		entries, err := parseTree(data)
		if err != nil {
			return nil, err
		}
		all := make([]Reference, 0, len(entries))
		for _, e := range entries {
			switch e.mode {
			case filemode.Submodule:
			case filemode.Dir:
				all = append(all, Reference{e.hash, plumbing.TreeObject})
			default:
				all = append(all, Reference{e.hash, plumbing.BlobObject})
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("it has the unknown type %d", t)
}

// commitReferences returns the tree and the parents of a commit.
func commitReferences(data []byte) ([]Reference, error) {
	tree, data, found := header(data, "tree ")
	if !found {
		return nil, errors.New("the commit has no tree")
	}
	all := []Reference{{tree, plumbing.TreeObject}}
	for {
		parent, rest, found := header(data, "parent ")
		if !found {
			break
		}
		all, data = append(all, Reference{parent, plumbing.CommitObject}), rest
	}
	if !bytes.HasPrefix(data, []byte("author ")) {
		return nil, errors.New("the commit has no author")
	}
	return all, nil
}

// tagReferences returns the object of a tag.
func tagReferences(data []byte) ([]Reference, error) {
	tagged, data, found := header(data, "object ")
	line, _, ended := bytes.Cut(data, []byte("\n"))
	name, typed := bytes.CutPrefix(line, []byte("type "))
	if !found || !ended || !typed {
		return nil, errors.New("the tag has no object")
	}
	t, err := plumbing.ParseObjectType(string(name))
	if err != nil || !t.Valid() || t.IsDelta() {
		return nil, errors.New("the tag has no type")
	}
	return []Reference{{tagged, t}}, nil
}

// header returns the hash in a line with a prefix, and the rest after the line.
func header(data []byte, prefix string) (h plumbing.Hash, rest []byte, found bool) {
	const digits = 2 * len(h)
	end := len(prefix) + digits
	if len(data) <= end || data[end] != '\n' || !bytes.HasPrefix(data, []byte(prefix)) {
		return h, data, false
	}
	if _, err := hex.Decode(h[:], data[len(prefix):end]); err != nil {
		return plumbing.ZeroHash, data, false
	}
	return h, data[end+1:], true
}

// entry is an entry of a tree.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

// parseTree returns the entries of a tree: with valid names, in order, each name once.
func parseTree(data []byte) ([]entry, error) {
	const fewest = 32 // bytes of an entry, roughly
	entries := make([]entry, 0, len(data)/fewest+1)
	for len(data) > 0 {
		mode, rest, found := bytes.Cut(data, []byte(" "))
		name, rest, ended := bytes.Cut(rest, []byte{0})
		e := entry{name: string(name)}
		if !found || !ended || len(rest) < len(e.hash) {
			return nil, errors.New("the tree is malformed")
		}
		copy(e.hash[:], rest)
		data = rest[len(e.hash):]
		var err error
		if e.mode, err = parseMode(string(mode)); err != nil {
			return nil, fmt.Errorf("the tree is malformed: %q: %w", name, err)
		}
		if rule := nameRule(e.name); rule != "" || strings.Contains(e.name, "/") {
			return nil, fmt.Errorf("the tree is malformed: %q is not a name", name)
		}
		if len(entries) > 0 && compare(entries[len(entries)-1], e) >= 0 {
			return nil, fmt.Errorf("the tree is malformed: %q is not in order", name)
		}
		entries = append(entries, e)
	}
	return entries, checkUnique(entries)
}

// checkUnique returns an error if a file and a folder have the same name: in the order of a tree,
// others may be between them.
func checkUnique(entries []entry) error {
	files := map[string]bool{}
	for i, e := range entries {
		// Only a name that is followed by one that it is a prefix of can come again.
		if e.mode != filemode.Dir && i+1 < len(entries) && strings.HasPrefix(entries[i+1].name, e.name) {
			files[e.name] = true
		} else if e.mode == filemode.Dir && files[e.name] {
			return fmt.Errorf("the tree is malformed: it has %q twice", e.name)
		}
	}
	return nil
}

// parseMode returns the mode of an entry.
func parseMode(text string) (filemode.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil {
		return filemode.Empty, errors.New("its mode is not octal")
	}
	switch mode := filemode.FileMode(n); mode {
	case filemode.Deprecated:
		return filemode.Regular, nil
	case filemode.Regular, filemode.Executable, filemode.Dir, filemode.Symlink, filemode.Submodule:
		return mode, nil
	}
	return filemode.Empty, fmt.Errorf("its mode is %s", text)
}

// compare orders entries as Git does: folders as if their name ended with a slash.
func compare(a, b entry) int {
	if order := strings.Compare(a.name, b.name); order == 0 && a.mode != filemode.Dir && b.mode != filemode.Dir {
		return 0
	}
	return strings.Compare(key(a), key(b))
}

func key(e entry) string {
	if e.mode == filemode.Dir {
		return e.name + "/"
	}
	return e.name
}

// readTree returns the entries of a tree; those of the zero hash are none.
func readTree(s storer.EncodedObjectStorer, hash plumbing.Hash) ([]entry, error) {
	if hash.IsZero() {
		return nil, nil
	}
	o, err := s.EncodedObject(plumbing.TreeObject, hash)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", hash, err)
	}
	data, err := contentOf(o)
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", hash, err)
	}
	return entries, nil
}

// writeTree adds a tree, unless it is one of those that exist.
func writeTree(s storer.EncodedObjectStorer, entries []entry, existing ...plumbing.Hash) (plumbing.Hash, error) {
	slices.SortFunc(entries, compare)
	var data []byte
	for _, e := range entries {
		data = strconv.AppendUint(data, uint64(e.mode), 8)
		data = append(append(append(data, ' '), e.name...), 0)
		data = append(data, e.hash[:]...)
	}
	hash := plumbing.ComputeHash(plumbing.TreeObject, data)
	if slices.Contains(existing, hash) {
		return hash, nil
	}
	return add(s, plumbing.TreeObject, data)
}
