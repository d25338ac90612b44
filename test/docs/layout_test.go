package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// maxLine is the column at which prose is wrapped, unless each sentence has a line of its own.
	maxLine = 100
	// maxReadme is the maximum number of lines of README.md.
	maxReadme = 120
	// maxPackage is the maximum number of Go files of a package.
	maxPackage = 25
)

var (
	abbreviation = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs|No)\.`)
	inlineLink   = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`)
	listNumber   = regexp.MustCompile(`^ *\d+\. `)
	sentenceEnd  = regexp.MustCompile("[.!?][)\"]?\\s+[A-Z\"*(\\[`]")
)

// longLines checks that a line beyond maxLine is one sentence. Tables are exempt.
func longLines(_ *testing.T, p page) []problem {
	var problems []problem
	for _, s := range p.prose {
		text := listNumber.ReplaceAllString(s.text, "")
		text = abbreviation.ReplaceAllString(inlineLink.ReplaceAllString(text, "[]"), "")
		if strings.HasPrefix(strings.TrimSpace(text), "|") || utf8.RuneCountInString(s.text) <= maxLine {
			continue
		}
		if sentenceEnd.MatchString(text) {
			problems = append(problems, problem{s.line, "several sentences on a line of more than 100 columns: give each sentence a line, or wrap the lines"})
		}
	}
	return problems
}

// TestReadmeIsShort: README.md introduces the project; the tour and the reference are in docs.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(readFile(t, "README.md"), "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines; allowed: %d", n, maxReadme)
	}
}

// TestPackagesAreSmall: a package that needs more files does more than one thing.
func TestPackagesAreSmall(t *testing.T) {
	files := map[string]int{}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && file != "." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if err == nil && path.Ext(file) == ".go" {
			files[path.Dir(file)]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, n := range files {
		if n > maxPackage {
			t.Errorf("%s has %d Go files; allowed: %d", folder, n, maxPackage)
		}
	}
}
