package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// auditPage is the page with the names of events of the audit log.
const auditPage = "docs/audit-log.md"

var (
	declaredEvent = regexp.MustCompile(`(\w+) *= (?:audit\.)?Declare\("([^"]+)"\)`)
	recordedEvent = regexp.MustCompile(`\baudit\.([A-Z]\w+)`)
	contentEvent  = regexp.MustCompile(`^(Created|Updated|Deleted) (folder|report|workbook)$`) // the page describes them together
)

// TestEventsAreDocumented: the page has the names of all events that the code names where it records them. Those of changes of
// objects consist of a verb and the name of the kind.
func TestEventsAreDocumented(t *testing.T) {
	page := readFile(t, auditPage)
	listed := map[string]string{} // of internal/audit, by the name of the variable
	for _, match := range declaredEvent.FindAllStringSubmatch(readFile(t, "internal/audit/names.go"), -1) {
		listed[match[1]] = match[2]
	}
	found := map[string]bool{}
	for _, folder := range []string{"apiserver", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "internal/audit/") {
				return err
			}
			source, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, match := range declaredEvent.FindAllStringSubmatch(string(source), -1) {
				found[match[2]] = true
			}
			for _, match := range recordedEvent.FindAllStringSubmatch(string(source), -1) {
				if name := listed[match[1]]; name != "" {
					found[name] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 40 {
		t.Errorf("only %d events were found in the source", len(found))
	}
	for name := range found {
		if !contentEvent.MatchString(name) && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s has no event %q", auditPage, name)
		}
	}
}
