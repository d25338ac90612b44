package model

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/internal/modeltree"
)

func TestNodes(t *testing.T) {
	var files []modeltree.File
	for _, path := range []string{"a-b", "a.yml", "a/b/c", "a/d", "z"} { // sorted by path
		files = append(files, modeltree.File{Path: path})
	}
	got, err := json.Marshal(nodesOf(files, ""))
	if err != nil {
		t.Fatal(err)
	}
	const want = `[` +
		`{"path":"/a","name":"a","type":"directory","children":[` +
		`{"path":"/a/b","name":"b","type":"directory","children":[{"path":"/a/b/c","name":"c","type":"file"}]},` +
		`{"path":"/a/d","name":"d","type":"file"}]},` +
		`{"path":"/a-b","name":"a-b","type":"file"},` +
		`{"path":"/a.yml","name":"a.yml","type":"file"},` +
		`{"path":"/z","name":"z","type":"file"}]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, err := json.Marshal(nodesOf(nil, "")); err != nil || string(got) != "[]" {
		t.Errorf("%s, %v", got, err)
	}
}

// FuzzNodes checks that a tree has the files that were listed, each once, in order.
func FuzzNodes(f *testing.F) {
	f.Add("a-b\na.yml\na/b/c\na/d\nz")
	f.Add("a/b\na b/c\na!/d")
	f.Fuzz(func(t *testing.T, text string) {
		var files []modeltree.File
		var want []string
		taken := map[string]bool{} // a file cannot be a folder as well
		for _, path := range slices.Compact(slices.Sorted(strings.SplitSeq(text, "\n"))) {
			inFile := false
			for i, c := range path {
				inFile = inFile || c == '/' && taken[path[:i]]
			}
			if inFile || modeltree.CheckPath(path) != nil {
				continue
			}
			taken[path] = true
			files, want = append(files, modeltree.File{Path: path}), append(want, "/"+path)
		}
		var got []string
		visit(nodesOf(files, ""), func(n *SourceNode) {
			if !strings.HasSuffix(n.Path, "/"+n.Name) || n.Path != "/"+n.blob.Path {
				t.Fatalf("%+v", n)
			}
			got = append(got, n.Path)
		})
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// FuzzTransactionID checks that the id of a form is that of its JSON, or is rejected.
func FuzzTransactionID(f *testing.F) {
	for _, seed := range []string{"X1", `"X1"`, `{"id":"X1"}`, `{"id":{"id":"X1"}}`, `"{\"id\":\"X1\"}"`, "null", "1e9", "[", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		id, err := transactionID(value)
		if err == nil && (id == "" || !strings.Contains(value, id) && !strings.Contains(value, `\`) && utf8.ValidString(value)) {
			t.Fatalf("the id of %q is %q", value, id)
		}
	})
}

func TestTransactionID(t *testing.T) {
	for _, value := range []any{
		"X1", `"X1"`, `{"id":"X1"}`, `{"id":"X1","other":1}`, map[string]any{"id": "X1"},
	} {
		if id, err := transactionID(value); err != nil || id != "X1" {
			t.Errorf("%v: %q, %v", value, id, err)
		}
	}
	for _, value := range []any{nil, 1.0, true, []any{}, map[string]any{}, map[string]any{"id": 1.0}, `{"id":1}`, `{"id":`, `"`} {
		if id, err := transactionID(value); err == nil {
			t.Errorf("%v: %q", value, id)
		}
	}
}
