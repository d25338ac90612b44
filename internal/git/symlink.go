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

// resolution is the state of resolving a symbolic link in the commit's tree.
type resolution struct {
	c    *checkout
	link string   // for messages
	dir  []string // the current folder, from the root of the tree
	rest []string // the remaining components
	hops int
}

// resolve returns the regular file that a symbolic link points to. It reads
// the commit's tree only, never the local file system.
func (c *checkout) resolve(link object.TreeEntry, linkPath []string) (object.TreeEntry, error) {
	r := &resolution{c: c, link: path.Join(linkPath...)}
	r.dir = append(append([]string{}, c.path...), linkPath[:len(linkPath)-1]...)
	if err := r.follow(link); err != nil {
		return object.TreeEntry{}, err
	}
	for len(r.rest) > 0 {
		name := r.rest[0]
		r.rest = r.rest[1:]
		file, err := r.step(name)
		if err != nil || file != nil {
			return deref(file), err
		}
	}
	return object.TreeEntry{}, r.fail("points to a folder")
}

// step resolves one component; it returns the file if the link ends there.
func (r *resolution) step(name string) (*object.TreeEntry, error) {
	switch name {
	case "", ".":
		return nil, nil
	case "..":
		if len(r.dir) == 0 {
			return nil, r.fail("points out of the repository")
		}
		r.dir = r.dir[:len(r.dir)-1]
		return nil, nil
	}
	entry, err := r.lookup(name)
	if err != nil {
		return nil, err
	}
	switch entry.Mode {
	case filemode.Dir:
		r.dir = append(r.dir, name)
		return nil, nil
	case filemode.Symlink:
		return nil, r.follow(entry)
	case filemode.Regular, filemode.Executable, filemode.Deprecated:
		if len(r.rest) > 0 {
			return nil, r.fail("points below a file")
		}
		return &entry, nil
	}
	return nil, r.fail("points to a submodule")
}

// lookup returns the entry of a name in the current folder.
func (r *resolution) lookup(name string) (object.TreeEntry, error) {
	tree, err := r.c.tree(r.c.root)
	if err != nil {
		return object.TreeEntry{}, err
	}
	for _, dir := range r.dir {
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

// follow prepends a link's target to the remaining components.
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
	r.rest = append(strings.Split(target, "/"), r.rest...)
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
