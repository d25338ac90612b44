package api_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pagesFolder has a page for each kind.
const pagesFolder = "../../docs/kinds"

// pages returns the texts of the pages by file name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pagesFolder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	if len(texts) == 0 {
		t.Fatalf("no pages in %s", pagesFolder)
	}
	return texts
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestExamplesInTheDocumentationAreValid(t *testing.T) {
	s := server(t)
	// The namespace of all examples.
	s.applyStrictly(t, object(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}"))
	for name, text := range pages(t) {
		for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
			t.Run(name, func(t *testing.T) { s.applyStrictly(t, object(t, block[1])) })
		}
	}
}

// TestEveryKindHasAPage also checks the tables that go run ./hack/docs generates.
func TestEveryKindHasAPage(t *testing.T) {
	all := strings.Join(slices.Collect(maps.Values(pages(t))), "\n")
	for kind := range schemasByKind(t) {
		parts := []string{"spec", "status"}
		if withoutStatus(kind) {
			parts = parts[:1]
		}
		for _, part := range parts {
			if !strings.Contains(all, "<!-- fields: "+kind+"."+part+" -->") {
				t.Errorf("no page has the table of %s.%s", kind, part)
			}
		}
	}
}

var (
	reasonConstant = regexp.MustCompile(`(?m)^\s+Reason\w+\s+= "(\w+)"`)
	reasonRow      = regexp.MustCompile("(?m)^\\| (`\\w+`(?:, `\\w+`)*) \\| [A-Z][A-Za-z, ]* \\| ")
)

// Users search for reasons when something is wrong.
func TestEveryReasonIsExplained(t *testing.T) {
	source := readFile(t, filepath.Join(sourceFolder, "conditions.go"))
	known := map[string]bool{}
	for _, match := range reasonConstant.FindAllStringSubmatch(source, -1) {
		known[match[1]] = true
	}
	explained := map[string]bool{}
	for name, text := range pages(t) {
		for _, match := range reasonRow.FindAllStringSubmatch(text, -1) {
			for reason := range strings.SplitSeq(strings.ReplaceAll(match[1], "`", ""), ", ") {
				explained[reason] = true
				if !known[reason] {
					t.Errorf("%s explains %s, which is not a reason in conditions.go", name, reason)
				}
			}
		}
	}
	if len(known) == 0 {
		t.Fatal("found no reasons in conditions.go")
	}
	for reason := range known {
		if !explained[reason] {
			t.Errorf("no page explains the reason %s", reason)
		}
	}
}
