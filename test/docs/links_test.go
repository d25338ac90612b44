package docs_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// brokenLinks checks relative links and anchors. Links to other sites are not followed.
func brokenLinks(t *testing.T, p page) []problem {
	t.Helper()
	var problems []problem
	for _, line := range p.prose {
		for _, match := range link.FindAllStringSubmatch(line.text, -1) {
			if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
				continue
			}
			if reason := brokenLink(t, p, match[1]); reason != "" {
				problems = append(problems, problem{line.line, fmt.Sprintf("link to %q: %s", match[1], reason)})
			}
		}
	}
	return problems
}

// brokenLink returns why a link of the page does not resolve, or "".
func brokenLink(t *testing.T, p page, target string) string {
	t.Helper()
	file, anchor, hasAnchor := strings.Cut(target, "#")
	linked := p
	if file != "" {
		file = path.Join(path.Dir(p.file), file)
		if !exists(file) {
			return "no such file"
		}
		if path.Ext(file) != ".md" || !hasAnchor {
			return ""
		}
		linked = parsePage(file, readFile(t, file))
	}
	if hasAnchor && !anchors(linked)[anchor] {
		return "no such heading"
	}
	return ""
}

var headingLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// anchors returns the anchors of the page's headings, as GitHub makes them.
func anchors(p page) map[string]bool {
	found := map[string]bool{}
	for _, h := range p.headings {
		text := strings.ToLower(headingLink.ReplaceAllString(h.text, "$1"))
		base := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return r
			}
			return -1
		}, text)
		anchor := base
		for i := 1; found[anchor]; i++ {
			anchor = fmt.Sprintf("%s-%d", base, i)
		}
		found[anchor] = true
	}
	return found
}
