package modeltree

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

func TestCheckPath(t *testing.T) {
	for _, allowed := range []string{
		"cube.js", "model/cubes/orders.yml", ".gitignore", "a b/ü.yml", "..a", "a..", ".github/x", "git", "日本/語.yml",
		strings.Repeat("a", MaxName), strings.Repeat("a/", MaxDepth-1) + "a",
	} {
		if err := CheckPath(allowed); err != nil {
			t.Error(err)
		}
	}
	for rejected, rule := range map[string]string{
		"": "empty", "/a": "relative", "a//b": "empty name", "a/": "empty name", ".": `name "."`, "a/../b": `name ".."`, "..": `name ".."`,
		"a/.git/hooks/x": "reserves", ".GIT/config": "reserves", ".git./x": "reserves", "GIT~1/x": "reserves", ".git::$INDEX_ALLOCATION/x": "reserves",
		".g\u200cit/x": "U+200C", "a\x00b": "U+0000", "a\nb": "U+000A", "a\u202eb": "U+202E", "a\u2028b": "U+2028", "a\x7f": "U+007F",
		`a\b`: "backslash", "\xff": "UTF-8", strings.Repeat("a", MaxName+1): "256 bytes; allowed: 255",
		strings.Repeat("a/", MaxDepth) + "a": "101 names; allowed: 100", strings.Repeat("abcdefgh/", 200) + "a": "1801 bytes; allowed: 1024",
	} {
		rejects(t, CheckPath(rejected), rule)
	}
}

func TestCheckCase(t *testing.T) {
	if err := CheckCase([]string{"a/b", "a/c", "b/a", "a.b", "ß", "ss"}); err != nil {
		t.Error(err)
	}
	for _, clash := range [][]string{{"a", "A"}, {"a/x", "A/y"}, {"model/É.yml", "model/é.yml"}, {"a", "b", "A/b"}} {
		rejects(t, CheckCase(clash), "differs only in case")
	}
}

// FuzzCheckPath checks that no allowed path leaves its folder, has a second spelling, or reaches the
// files of Git, and that all can be written and read again.
func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{"a/b.yml", "../x", ".git", "a\u200d", "\\", "a/./b", "C:/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		if path.Clean(p) != p || !filepath.IsLocal(p) || strings.ContainsFunc(p, unicode.IsControl) || strings.Contains(strings.ToLower("/"+p+"/"), "/.git/") {
			t.Fatalf("%q is allowed", p)
		}
		s := newStore()
		tree := must(Apply(s, zero, []Edit{{p, must(AddBlob(s, []byte("x")))(t)}}))(t)
		if got := contents(t, s, tree); len(got) != 1 || got[p] != "x" {
			t.Fatalf("%q becomes %v", p, got)
		}
	})
}
