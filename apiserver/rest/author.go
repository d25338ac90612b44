package rest

import (
	"cmp"
	"context"
	"strings"
	"unicode"
)

// maxAuthor bounds the name and the e-mail address of an author in characters.
const maxAuthor = 128

// Author returns the name and the e-mail address of the caller for commits. A caller without an address
// gets one in the domain "invalid" (RFC 2606), so that nothing is delivered to it.
func Author(ctx context.Context) (name, email string) {
	p := ScopeFrom(ctx).Principal
	name, email = authorText(cmp.Or(p.Name, p.ID)), authorText(p.Email)
	if !strings.Contains(email, "@") {
		email = strings.ReplaceAll(authorText(withoutIssuer(p.ID)), " ", "-") + "@" + strings.ToLower(string(p.Kind)) + ".invalid"
	}
	return cmp.Or(name, "unknown"), email
}

// authorText returns text that is valid in the author of a commit.
func authorText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '<' || r == '>' || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxAuthor {
		text = string(runes[:maxAuthor])
	}
	return strings.TrimSpace(text)
}
