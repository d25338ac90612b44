package masking

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Lengths in bytes of the shortest values that Known hides: with the name of a secret, and with any
// other name. Shorter values, such as true or 5432, are parts of unrelated text.
const (
	shortestSecret = 3
	shortestValue  = 6
)

// Known hides known secrets, such as those in a Secret, wherever they are in a text: as they are, and
// encoded for URLs, in JSON and in base64. The zero value knows none.
type Known struct{ forms map[string]struct{} }

// Add adds a value of an environment variable or of a key of a Secret. It hides the value, each of its
// lines, because logs are read line by line, and the password in it if it is a URL. A value with less
// than three bytes is not hidden, nor one with less than six whose name is not that of a secret.
func (k *Known) Add(name, value string) {
	shortest := shortestValue
	if IsSecret(name) {
		shortest = shortestSecret
	}
	k.add(value, shortest)
	k.add(strings.TrimSpace(value), shortest)
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			k.add(strings.TrimSpace(line), shortestValue)
		}
	}
	if u, err := url.Parse(strings.TrimSpace(value)); err == nil && u.User != nil {
		password, _ := u.User.Password()
		k.add(password, shortestSecret)
	}
}

func (k *Known) add(value string, shortest int) {
	if len(value) < shortest {
		return
	}
	if k.forms == nil {
		k.forms = map[string]struct{}{}
	}
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for _, unescaped := range unescapedInURLs {
		forms = append(forms, percentEncode(value, unescaped))
	}
	if quoted, err := EncodeJSON(value); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// Only the characters that do not depend on what may follow.
		if encoded := encoding.EncodeToString([]byte(value)[:len(value)/3*3]); len(encoded) >= 8 {
			forms = append(forms, encoded)
		}
	}
	for _, form := range forms {
		k.forms[form] = struct{}{}
	}
}

// unescapedInURLs are the characters besides letters and digits that JavaScript, in which the server is written, does not
// escape, unlike package url: those of encodeURIComponent, and of user names and passwords in a URL (URL Standard, heading
// "userinfo percent-encode set").
var unescapedInURLs = []string{"-_.!~*'()", "-_.!~*'()$%&+,"}

// percentEncode escapes a value for URLs, except letters, digits and other characters.
func percentEncode(value, unescaped string) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(value))
	for i := range len(value) {
		b := value[i]
		if b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || strings.IndexByte(unescaped, b) >= 0 {
			out = append(out, b)
		} else {
			out = append(out, '%', digits[b>>4], digits[b&15])
		}
	}
	return string(out)
}

// Replacer returns a replacer of all values that have been added.
func (k *Known) Replacer() *strings.Replacer {
	// Of several that begin at the same place, the first one is replaced: the longest.
	forms := make([]string, 0, len(k.forms))
	for form := range k.forms {
		forms = append(forms, form)
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Hidden)
	}
	return strings.NewReplacer(pairs...)
}

// keyLines is the largest number of lines of a private key: one of 16384 bits has 204.
const keyLines = 256

var (
	keyBegins = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY`)
	keyEnds   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY`)
)

// Lines hides credentials in consecutive lines of a text, in place, and private keys that extend over
// several of them, also those of which only the end is there.
func Lines(lines []string) {
	begin := -1 // the line with the beginning of a key, -1 outside of one
	for i, line := range lines {
		begins, ends := keyBegins.MatchString(line), keyEnds.MatchString(line)
		if begin >= 0 && i-begin >= keyLines {
			begin = -1
		}
		switch {
		case begins && !ends:
			begin = i
			lines[i] = Text(line)
		case ends && !begins && begin < 0:
			hide(lines[max(0, i-keyLines):i])
			lines[i] = Hidden
		case begin >= 0:
			lines[i] = Hidden
		default:
			lines[i] = Text(line)
		}
		if ends {
			begin = -1
		}
	}
}

func hide(lines []string) {
	for i := range lines {
		lines[i] = Hidden
	}
}
