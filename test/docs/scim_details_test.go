package docs_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// scimPage is the page with the table of errors of SCIM.
const scimPage = "docs/operations/scim-setup.md"

var (
	// errorRow is a row of the table: the status with scimTypes, and the details.
	errorRow = regexp.MustCompile(`(?m)^\| (\d{3}[^|]*) \|([^|]*)\|`)
	// exampleValue is what the page has in a detail in place of a value: an ellipsis, a quoted text, or a name of a type or of
	// an attribute.
	exampleValue = regexp.MustCompile(`"[^"]*"|…|\b(?:User|userName)\b`)
	verb         = regexp.MustCompile(`%[a-z]`)
)

// constantText returns a detail or a format with … for each value, without values at the end, so that a detail of the page is
// part of the format from which the server makes it.
func constantText(text string, value *regexp.Regexp) string {
	return strings.TrimRight(value.ReplaceAllString(text, "…"), " :,…")
}

// sourceStrings returns the strings of the Go files below a folder, without tests.
func sourceStrings(t *testing.T, folder string) []string {
	t.Helper()
	var found []string
	inspectSource(t, func(n ast.Node) {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				found = append(found, text)
			}
		}
	}, folder)
	return found
}

// staleErrors returns the scimTypes and the details in the table of a page that the source does not have.
func staleErrors(page string, source []string) (stale []string, checked int) {
	formats := make([]string, len(source))
	for i, text := range source {
		formats[i] = constantText(text, verb)
	}
	for _, row := range errorRow.FindAllStringSubmatch(page, -1) {
		for _, scimType := range codeSpan.FindAllStringSubmatch(row[1], -1) {
			if checked++; !slices.Contains(source, scimType[1]) {
				stale = append(stale, scimType[1])
			}
		}
		for _, detail := range codeSpan.FindAllStringSubmatch(row[2], -1) {
			constant := constantText(detail[1], exampleValue)
			if !strings.Contains(constant, " ") {
				continue // the name of an attribute
			}
			if checked++; !slices.ContainsFunc(formats, func(format string) bool { return strings.Contains(format, constant) }) {
				stale = append(stale, detail[1])
			}
		}
	}
	return stale, checked
}

// TestDetailsOfSCIMErrors checks that the scimTypes and the details in the table for administrators are those of the server.
func TestDetailsOfSCIMErrors(t *testing.T) {
	_, table, _ := strings.Cut(readFile(t, scimPage), "\n## Troubleshooting\n")
	stale, checked := staleErrors(table, sourceStrings(t, "apiserver"))
	for _, text := range stale {
		t.Errorf("%s: no string in apiserver has %q", scimPage, text)
	}
	if checked < 15 {
		t.Errorf("%s: only %d scimTypes and details were found", scimPage, checked)
	}
}

// TestStaleErrorsAreFound checks rows whose details the source has, and rows whose details differ from it.
func TestStaleErrorsAreFound(t *testing.T) {
	source := []string{"uniqueness", "%s: %s belongs to another %s", "%s %s does not exist", "not authenticated", "no answer, and nothing is changed", "%s"}
	stale, checked := staleErrors(strings.Join([]string{
		"| 409 `uniqueness` | `userName: \"…\" belongs to another User` | `kubectl get suser` |",
		"| 404 | `User \"…\" does not exist`, `not authenticated: …` | |",
		"| 503 | `no answer, …`, names `op` | |",
		"| 409 `unique` | `userName: \"…\" belongs to other Users` | |",
		"| 404 | `User \"…\" is unknown`, `not authorized: …` | |",
	}, "\n"), source)
	want := []string{"unique", "userName: \"…\" belongs to other Users", "User \"…\" is unknown", "not authorized: …"}
	if !slices.Equal(stale, want) || checked != 9 {
		t.Errorf("got %q of %d, want %q of 9", stale, checked, want)
	}
}
