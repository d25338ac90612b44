package modeledit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// hash returns a hash that begins with a digit.
func hash(digit string) plumbing.Hash { return plumbing.NewHash(strings.Repeat(digit, 40)) }

// tree returns files with the hashes 1, 2, 3 and so on.
func tree(paths ...string) []modeltree.File {
	var all []modeltree.File
	for i, path := range paths {
		all = append(all, modeltree.File{Path: path, Hash: hash(fmt.Sprint(i + 1))})
	}
	return all
}

// shown returns edits as "-path" and "path=digit".
func shown(edits []modeltree.Edit) string {
	var all []string
	for _, e := range edits {
		if e.Blob.IsZero() {
			all = append(all, "-"+e.Path)
			continue
		}
		all = append(all, e.Path+"="+e.Blob.String()[:1])
	}
	return strings.Join(all, " ")
}

var model = tree("README.md", "model/cubes/a.yml", "model/cubes/b.yml", "model/views/v.yml")

// editCase is a change of the files in model, and its result.
type editCase struct {
	edits  func() ([]modeltree.Edit, error)
	want   string
	reason content.Reason
	text   string
}

var editCases = map[string]editCase{
	"create and overwrite": {edits: func() ([]modeltree.Edit, error) {
		return Put(model, []Blob{{"/model/cubes/c.yml", hash("9")}, {"README.md", hash("8")}})
	}, want: "README.md=8 model/cubes/c.yml=9"},
	"create in an empty tree": {edits: func() ([]modeltree.Edit, error) { return Put(nil, []Blob{{"a", hash("9")}}) }, want: "a=9"},
	"a path twice": {edits: func() ([]modeltree.Edit, error) {
		return Put(model, []Blob{{"/a", hash("9")}, {"a", hash("8")}})
	}, reason: content.Invalid, text: `"a" is there twice`},

	"delete a file":   {edits: func() ([]modeltree.Edit, error) { return Delete(model, []string{"/README.md"}) }, want: "-README.md"},
	"delete a folder": {edits: func() ([]modeltree.Edit, error) { return Delete(model, []string{"model/cubes/"}) }, want: "-model/cubes/a.yml -model/cubes/b.yml"},
	"delete twice":    {edits: func() ([]modeltree.Edit, error) { return Delete(model, []string{"README.md", "README.md"}) }, want: "-README.md"},
	"delete nothing":  {edits: func() ([]modeltree.Edit, error) { return Delete(model, []string{"model/cube"}) }, reason: content.NotFound, text: `"model/cube"`},
	"delete the root": {edits: func() ([]modeltree.Edit, error) { return Delete(model, []string{"/"}) }, reason: content.NotFound, text: `""`},

	"rename a file": {edits: func() ([]modeltree.Edit, error) {
		return Move(model, []Rename{{"/README.md", "/docs/README.md"}})
	}, want: "-README.md docs/README.md=1"},
	"rename a folder": {edits: func() ([]modeltree.Edit, error) {
		return Move(model, []Rename{{"model/cubes", "cubes"}})
	}, want: "cubes/a.yml=2 cubes/b.yml=3 -model/cubes/a.yml -model/cubes/b.yml"},
	"exchange two files": {edits: func() ([]modeltree.Edit, error) {
		return Move(model, []Rename{{"model/cubes/a.yml", "model/cubes/b.yml"}, {"model/cubes/b.yml", "model/cubes/a.yml"}})
	}, want: "model/cubes/a.yml=3 model/cubes/b.yml=2"},
	"change the case": {edits: func() ([]modeltree.Edit, error) {
		return Move(model, []Rename{{"README.md", "readme.md"}})
	}, want: "-README.md readme.md=1"},
	"rename to a file that exists": {edits: func() ([]modeltree.Edit, error) {
		return Move(model, []Rename{{"README.md", "model/views/v.yml"}})
	}, reason: content.Conflict, text: "exists"},
	"rename to itself": {edits: func() ([]modeltree.Edit, error) { return Move(model, []Rename{{"README.md", "README.md"}}) }, want: "README.md=1"},
	"rename twice": {edits: func() ([]modeltree.Edit, error) {
		return Move(model, []Rename{{"README.md", "a"}, {"README.md", "b"}})
	}, reason: content.Invalid, text: "renamed twice"},
	"rename to one path": {edits: func() ([]modeltree.Edit, error) {
		return Move(model, []Rename{{"README.md", "a"}, {"model/views/v.yml", "a"}})
	}, reason: content.Invalid, text: `"a" is there twice`},
	"rename into itself": {edits: func() ([]modeltree.Edit, error) {
		return Move(model, []Rename{{"model/cubes", "model/cubes/old"}})
	}, want: "-model/cubes/a.yml -model/cubes/b.yml model/cubes/old/a.yml=2 model/cubes/old/b.yml=3"},

	"replace": {edits: func() ([]modeltree.Edit, error) {
		return replace(model, []Blob{{"README.md", hash("1")}, {"model/cubes/a.yml", hash("9")}}, false)
	}, want: "model/cubes/a.yml=9 -model/cubes/b.yml -model/views/v.yml"},
	"replace and keep": {edits: func() ([]modeltree.Edit, error) {
		return replace(model, []Blob{{"README.md", hash("1")}, {"model/cubes/a.yml", hash("9")}}, true)
	}, want: "model/cubes/a.yml=9"},
	"replace a folder by a file": {edits: func() ([]modeltree.Edit, error) {
		return replace(model, []Blob{{"model", hash("9")}}, false)
	}, want: "-README.md model=9 -model/cubes/a.yml -model/cubes/b.yml -model/views/v.yml"},
}

func TestEdits(t *testing.T) {
	for name, c := range editCases {
		t.Run(name, func(t *testing.T) {
			edits, err := c.edits()
			var rejected *content.Error
			if c.text != "" {
				if !errors.As(err, &rejected) || rejected.Reason != c.reason || !strings.Contains(rejected.Message, c.text) {
					t.Errorf("%v, want %s with %q", err, c.reason, c.text)
				}
				return
			}
			if err != nil || shown(edits) != c.want {
				t.Errorf("%q, %v, want %q", shown(edits), err, c.want)
			}
		})
	}
}

func replace(current []modeltree.File, files []Blob, keep bool) ([]modeltree.Edit, error) {
	return Replace(current, files, keep), nil
}

func TestBelow(t *testing.T) {
	edits := []modeltree.Edit{{Path: "a", Blob: hash("1")}, {Path: "b/c"}}
	for root, want := range map[string]string{"": "a=1 -b/c", "model": "model/a=1 -model/b/c", "/model/": "model/a=1 -model/b/c", ".": "a=1 -b/c"} {
		if got := shown(Below(root, edits)); got != want {
			t.Errorf("%q: %s", root, got)
		}
	}
	if !slices.Equal(edits, []modeltree.Edit{{Path: "a", Blob: hash("1")}, {Path: "b/c"}}) {
		t.Error("the edits were changed")
	}
}
