package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	repositoryPath = regexp.MustCompile(`^(?:\./)?((?:api|apiserver|charts|cmd|config|controllers|docs|gateway|hack|internal|test)/\S*[^\s.,;])$`)
	placeholder    = regexp.MustCompile(`<\w+>`)
	exported       = regexp.MustCompile(`^(.+)\.([A-Z]\w*)$`)
)

// missingPaths checks code spans that are paths of the repository, and paths in commands.
// <name> in a path stands for any text, as * does.
func missingPaths(t *testing.T, p page) []problem {
	t.Helper()
	var problems []problem
	for _, s := range p.code() {
		for _, word := range words(s.text) {
			match := repositoryPath.FindStringSubmatch(word)
			if match == nil || strings.HasSuffix(word, "...") || resolves(t, match[1]) {
				continue
			}
			problems = append(problems, problem{s.line, fmt.Sprintf("path %q does not exist", match[1])})
		}
	}
	return problems
}

// resolves reports whether a path, or a package with an exported identifier, exists.
func resolves(t *testing.T, name string) bool {
	t.Helper()
	pattern := filepath.Join(root, placeholder.ReplaceAllString(name, "*"))
	if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
		return err == nil
	}
	match := exported.FindStringSubmatch(name)
	return match != nil && declares(t, match[1], regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)`+match[2]+`\b`))
}

// declares reports whether a Go file of the folder matches the expression.
func declares(t *testing.T, folder string, declaration *regexp.Regexp) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return declaration.Match(content)
	})
}
