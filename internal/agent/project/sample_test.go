package project_test

import (
	"io/fs"
	"os"
	"path"
	"testing"

	"github.com/quoin-dev/quoin/internal/agent/project"
)

// TestSample: the example files have no problems, and questions with answers.
func TestSample(t *testing.T) {
	var files []project.File
	folder := os.DirFS("../../../hack/dataplane")
	err := fs.WalkDir(folder, project.DefaultFolder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		files = append(files, project.File{Path: path.Clean(name), Size: int64(len(text)), Text: text})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p := project.Parse(project.DefaultFolder, files)
	if len(p.Problems) > 0 || len(p.Questions) != 2 || len(p.Queries) != 1 {
		t.Errorf("%v; %d questions, %d queries", p.Problems, len(p.Questions), len(p.Queries))
	}
}
