package git

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

const (
	// MaxRefs bounds the branches read of one repository.
	MaxRefs = 5000

	maxRefName = 1024 // bytes
	headsDir   = "refs/heads/"
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
// The error is an *Error of one of the kinds (more than MaxRefs branches:
// ErrTooLarge), or wraps ErrInvalidURL.
func (c *Client) Refs(ctx context.Context, rawURL string, creds Credentials) ([]Ref, string, error) {
	r, err := parseURL(rawURL, c.options)
	if err != nil {
		return nil, "", err
	}
	s, err := c.open(ctx, r, creds)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	refs := branches(s.refs)
	if len(refs) > MaxRefs {
		return nil, "", r.fail(ErrTooLarge, "more than %d branches", MaxRefs)
	}
	return refs, defaultBranch(s.refs, refs), nil
}

func branches(adv *packp.AdvRefs) []Ref {
	refs := []Ref{}
	for full, commit := range adv.References {
		name, ok := strings.CutPrefix(full, headsDir)
		if !ok || name == "" || len(name) > maxRefName || !utf8.ValidString(name) {
			continue
		}
		refs = append(refs, Ref{Name: name, Commit: commit.String()})
	}
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Compare(a.Name, b.Name) })
	return refs
}

// defaultBranch returns the branch that HEAD points to. Servers before Git
// 1.8.4.3 do not advertise it; for them it is a branch with HEAD's commit, main
// and master first.
func defaultBranch(adv *packp.AdvRefs, refs []Ref) string {
	has := func(name string) bool {
		return slices.ContainsFunc(refs, func(r Ref) bool { return r.Name == name })
	}
	for _, symref := range adv.Capabilities.Get(capability.SymRef) {
		from, to, _ := strings.Cut(symref, ":")
		name, isBranch := strings.CutPrefix(to, headsDir)
		if from == plumbing.HEAD.String() && isBranch && has(name) {
			return name
		}
	}
	if adv.Head == nil || adv.Capabilities.Supports(capability.SymRef) {
		return ""
	}
	candidates := append([]Ref{{Name: "main"}, {Name: "master"}}, refs...)
	for _, c := range candidates {
		if adv.References[headsDir+c.Name] == *adv.Head {
			return c.Name
		}
	}
	return ""
}
