package git

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	// MaxRefs bounds the branches read of one repository.
	MaxRefs = 5000

	maxRefName  = 1024    // bytes
	maxRefNames = 1 << 20 // bytes of all names
	headsDir    = "refs/heads/"
	tagsDir     = "refs/tags/"
	// peeledSuffix is appended to the name of an annotated tag for the commit that it refers to.
	peeledSuffix = "^{}"
)

// Ref is a branch of a remote.
type Ref struct {
	// Name is the branch's name without refs/heads/: "feature/x".
	Name string
	// Commit is the branch's newest commit, 40 hex digits.
	Commit string
}

// Refs returns the branches of a remote, sorted by name, and the name of its
// default branch; an empty repository has none and "". Names that are not
// UTF-8, which Kubernetes cannot hold, and names of more than 1024 bytes are
// left out.
//
// Only branches are kept, and the reading ends at the first one too many, so the memory of a
// call does not depend on the server.
//
// The error is an *Error of one of the kinds (more than MaxRefs branches, or more than 1 MiB of
// names: ErrTooLarge), or wraps ErrInvalidURL.
func (c *Client) Refs(ctx context.Context, rawURL string, creds Credentials) ([]Ref, string, error) {
	r, err := parseURL(rawURL, c.options)
	if err != nil {
		return nil, "", err
	}
	list := &branchList{remote: r, refs: []Ref{}}
	s, err := c.open(ctx, r, creds, []string{headRef, headsDir}, list.visit)
	if err != nil {
		return nil, "", err
	}
	s.close()
	return list.sorted(), list.defaultBranch(), nil
}

// Resolve returns the full name of a branch or tag of a remote, and its commit. A branch precedes a tag of
// the same name. The default branch is meant if name is empty; its full name is HEAD.
//
// The error is an *Error of one of the kinds (no such branch or tag: ErrRefNotFound), or wraps ErrInvalidURL.
func (c *Client) Resolve(ctx context.Context, rawURL string, creds Credentials, name string) (ref, commit string, err error) {
	r, err := parseURL(rawURL, c.options)
	if err != nil {
		return "", "", err
	}
	// In the order of precedence.
	wanted := []string{headRef}
	if name != "" {
		wanted = []string{headsDir + name, tagsDir + name + peeledSuffix, tagsDir + name}
	}
	found := map[string]string{}
	s, err := c.open(ctx, r, creds, []string{headRef, headsDir + name, tagsDir + name}, func(name []byte, commit plumbing.Hash, _ []byte) error {
		if slices.Contains(wanted, string(name)) {
			found[string(name)] = commit.String()
		}
		return nil
	})
	if err != nil {
		return "", "", err
	}
	s.close()
	for _, ref := range wanted {
		if commit, ok := found[ref]; ok {
			return strings.TrimSuffix(ref, peeledSuffix), commit, nil
		}
	}
	if name == "" {
		return "", "", r.fail(ErrRefNotFound, "the repository has no default branch")
	}
	return "", "", r.fail(ErrRefNotFound, "branch or tag %q not found", name)
}

// branchList collects the branches of a remote.
type branchList struct {
	remote remote
	refs   []Ref
	names  int // bytes of all names
	// head is the commit of HEAD, and target the ref to which HEAD refers; empty if unknown.
	head, target string
}

// sorted returns the branches by name, each name once.
func (l *branchList) sorted() []Ref {
	slices.SortFunc(l.refs, func(a, b Ref) int { return cmp.Compare(a.Name, b.Name) })
	l.refs = slices.CompactFunc(l.refs, func(a, b Ref) bool { return a.Name == b.Name })
	return l.refs
}

// visit implements refVisitor.
func (l *branchList) visit(name []byte, commit plumbing.Hash, target []byte) error {
	if string(name) == headRef {
		if len(target) <= len(headsDir)+maxRefName {
			l.head, l.target = commit.String(), string(target)
		}
		return nil
	}
	name, ok := bytes.CutPrefix(name, []byte(headsDir))
	if !ok || len(name) == 0 || len(name) > maxRefName || !utf8.Valid(name) {
		return nil
	}
	if len(l.refs) == MaxRefs {
		return l.remote.fail(ErrTooLarge, "more than %d branches", MaxRefs)
	}
	if l.names += len(name); l.names > maxRefNames {
		return l.remote.fail(ErrTooLarge, "the names of the branches are longer than %d bytes", maxRefNames)
	}
	l.refs = append(l.refs, Ref{Name: string(name), Commit: commit.String()})
	return nil
}

// defaultBranch returns the branch that HEAD points to. Servers before Git
// 1.8.4.3 do not advertise it; for them it is a branch with HEAD's commit, main
// and master first.
func (l *branchList) defaultBranch() string {
	has := func(matches func(Ref) bool) bool { return slices.ContainsFunc(l.refs, matches) }
	if l.target != "" {
		name, ok := strings.CutPrefix(l.target, headsDir)
		if ok && has(func(r Ref) bool { return r.Name == name }) {
			return name
		}
		return ""
	}
	for _, c := range append([]Ref{{Name: "main"}, {Name: "master"}}, l.refs...) {
		if has(func(r Ref) bool { return r.Name == c.Name && r.Commit == l.head }) {
			return c.Name
		}
	}
	return ""
}
