package serving

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPathBytes bounds the decoded path.
const maxPathBytes = 2 << 10

// CanonicalPath lets only one spelling of a path through, so that what authentication sees
// is what routes see. The decoded path decides. Anything with an empty, `.` or `..` segment,
// a backslash, an encoded slash, a control character, invalid UTF-8 or more than 2 KiB is
// answered with 404. One trailing slash is taken away: both spellings are served, and nothing
// is redirected, provided that next registers no pattern that ends in a slash besides "/".
//
// next gets a copy of the request whose URL.Path, URL.RawPath and RequestURI agree.
func CanonicalPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := canonical(r.URL)
		if !ok {
			WriteError(w, http.StatusNotFound, "not found")
			return
		}
		u := *r.URL
		u.Path, u.RawPath = path, ""
		inner := new(http.Request)
		*inner = *r
		inner.URL, inner.RequestURI = &u, u.RequestURI()
		next.ServeHTTP(w, inner)
	})
}

// canonical is the one spelling of a URL's path; false when the path is refused.
func canonical(u *url.URL) (string, bool) {
	path := u.Path
	// RawPath is there whenever the path on the wire had an encoded slash.
	if len(path) > maxPathBytes || !strings.HasPrefix(path, "/") ||
		strings.Contains(strings.ToLower(u.RawPath), "%2f") ||
		strings.ContainsRune(path, '\\') || strings.ContainsFunc(path, unicode.IsControl) || !utf8.ValidString(path) {
		return "", false
	}
	if path == "/" {
		return path, true
	}
	path = strings.TrimSuffix(path, "/")
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", false
		}
	}
	return path, true
}
