package git

import (
	"io"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	maxLinkHops   = 8
	maxLinkLength = 4096 // bytes, of a link's target: Linux's PATH_MAX
)

// resolution is the following of one symbolic link through the commit's tree.
type resolution struct {
	c    *checkout
	link string   // for messages
	at   []string // the folder arrived at, from the root of the tree
	todo []string // components still to walk
	hops int
}

// resolve finds the regular file that a symbolic link stands for. Only the
// commit's tree is looked at, never the local file system.
func (c *checkout) resolve(link object.TreeEntry, place []string) (object.TreeEntry, error) {
	r := &resolution{c: c, link: path.Join(place...)}
	r.at = append(append([]string{}, c.path...), place[:len(place)-1]...)
	if err := r.follow(link); err != nil {
		return object.TreeEntry{}, err
	}
	for len(r.todo) > 0 {
		name := r.todo[0]
		r.todo = r.todo[1:]
		file, err := r.step(name)
		if err != nil || file != nil {
			return deref(file), err
		}
	}
	return object.TreeEntry{}, r.fail("points to a folder")
}

// step walks one component; it returns the file when that is where it leads.
func (r *resolution) step(name string) (*object.TreeEntry, error) {
	switch name {
	case "", ".":
		return nil, nil
	case "..":
		if len(r.at) == 0 {
			return nil, r.fail("points out of the repository")
		}
		r.at = r.at[:len(r.at)-1]
		return nil, nil
	}
	entry, err := r.look(name)
	if err != nil {
		return nil, err
	}
	switch entry.Mode {
	case filemode.Dir:
		r.at = append(r.at, name)
		return nil, nil
	case filemode.Symlink:
		return nil, r.follow(entry)
	case filemode.Regular, filemode.Executable, filemode.Deprecated:
		if len(r.todo) > 0 {
			return nil, r.fail("points below a file")
		}
		return &entry, nil
	}
	return nil, r.fail("points to a submodule")
}

// look finds a name in the folder arrived at.
func (r *resolution) look(name string) (object.TreeEntry, error) {
	tree, err := r.c.tree(r.c.root)
	if err != nil {
		return object.TreeEntry{}, err
	}
	for _, dir := range r.at {
		entry, ok := find(tree, dir)
		if !ok {
			return object.TreeEntry{}, r.fail("points to nothing")
		}
		if tree, err = r.c.tree(entry.Hash); err != nil {
			return object.TreeEntry{}, err
		}
	}
	entry, ok := find(tree, name)
	if !ok {
		return object.TreeEntry{}, r.fail("points to nothing")
	}
	return entry, nil
}

// follow puts a link's target before what is still to walk.
func (r *resolution) follow(link object.TreeEntry) error {
	if r.hops++; r.hops > maxLinkHops {
		return r.fail("is a chain of too many symbolic links")
	}
	target, err := r.c.linkTarget(link)
	if err != nil {
		return err
	}
	if target == "" || len(target) > maxLinkLength || strings.ContainsRune(target, 0) {
		return r.fail("has no valid target")
	}
	if strings.HasPrefix(target, "/") {
		return r.fail("points to an absolute path")
	}
	r.todo = append(strings.Split(target, "/"), r.todo...)
	return nil
}

func (c *checkout) linkTarget(link object.TreeEntry) (string, error) {
	blob, err := object.GetBlob(c.store, link.Hash)
	if err != nil {
		return "", c.damaged()
	}
	content, err := blob.Reader()
	if err != nil {
		return "", c.damaged()
	}
	defer content.Close()
	target, err := io.ReadAll(io.LimitReader(content, maxLinkLength+1))
	if err != nil {
		return "", c.damaged()
	}
	return string(target), nil
}

func (r *resolution) fail(reason string) error {
	return r.c.remote.fail(ErrInvalidTree, "symbolic link %q %s", r.link, reason)
}

func deref(entry *object.TreeEntry) object.TreeEntry {
	if entry == nil {
		return object.TreeEntry{}
	}
	return *entry
}
