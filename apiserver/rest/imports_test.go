package rest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestImports: a group imports no other group, and the engine imports no group.
func TestImports(t *testing.T) {
	const engine = "github.com/quoin-dev/quoin/apiserver/rest"
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		own, _, _ := strings.Cut(path.Dir(filepath.ToSlash(name)), "/")
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			below, isGroup := strings.CutPrefix(imported, engine+"/")
			if group, _, _ := strings.Cut(below, "/"); isGroup && group != own {
				t.Errorf("%s imports %s", name, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
