package serving

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPathBytes is the maximum length of the decoded path.
const maxPathBytes = 2 << 10

// CanonicalPath accepts only one spelling of each path, so that authentication and routing cannot
// interpret a path differently. It checks the decoded path, and responds with 404 to paths with an
// empty, `.` or `..` segment, a backslash, an encoded slash, a control character, invalid UTF-8 or
// more than 2 KiB. One trailing slash is removed: both spellings are served without a redirect,
// provided that next registers no pattern with a trailing slash other than "/".
//
// next receives a copy of the request whose URL.Path, URL.RawPath and RequestURI agree.
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

// canonical returns the canonical spelling of a URL's path, or false if the path is rejected.
func canonical(u *url.URL) (string, bool) {
	path := u.Path
	// RawPath is set whenever the path of the request has an encoded slash.
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
