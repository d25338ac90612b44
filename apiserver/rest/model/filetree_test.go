package model

import (
	"encoding/json"
	"testing"

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
