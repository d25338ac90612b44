package serving

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var longestPath = "/" + strings.Repeat("a", maxPathBytes-1)

var canonicalPathTests = []struct {
	target string // of the request line
	want   string // the served path; empty for 404
}{
	{"/", "/"},
	{"/a", "/a"},
	{"/a/", "/a"},
	{"/a/b?x=/../", "/a/b"},
	{"/a%20b/%C3%A9", "/a b/é"},
	{"/%61", "/a"},
	{"/...", "/..."},
	{"/.a/b..", "/.a/b.."},
	{"/a;b=c", "/a;b=c"},
	{"/a%252fb", "/a%2fb"},
	{longestPath, longestPath},
	{longestPath + "/", ""},
	{longestPath + "a", ""},
	{"//", ""},
	{"//a", ""},
	{"/a//", ""},
	{"/a//b", ""},
	{"/.", ""},
	{"/./a", ""},
	{"/..", ""},
	{"/a/../b", ""},
	{"/a/..", ""},
	{"/a/../", ""},
	{"/a/%2e%2e/b", ""},
	{"/a/%2E/b", ""},
	{"/a%2fb", ""},
	{"/a%2Fb", ""},
	{"/a%2F", ""},
	{"/a%5cb", ""},
	{`/a\b`, ""},
	{"/a%00", ""},
	{"/a%0a", ""},
	{"/a%7f", ""},
	{"/a%c2%85", ""},
	{"/a%ff", ""},
	{"*", ""},
	{"http://example.com", ""},
	{"http://example.com/a/", "/a"},
	{"x:y", ""},
}

func TestCanonicalPath(t *testing.T) {
	for _, tt := range canonicalPathTests {
		t.Run(tt.target, func(t *testing.T) {
			u, err := url.ParseRequestURI(tt.target)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.URL, r.RequestURI = u, tt.target
			before := *u
			got := ""
			w := httptest.NewRecorder()
			CanonicalPath(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got = r.URL.Path
				if r.URL.RawPath != "" || r.RequestURI != r.URL.RequestURI() || r.URL.RawQuery != u.RawQuery {
					t.Errorf("served with URL %#v and RequestURI %q", r.URL, r.RequestURI)
				}
			})).ServeHTTP(w, r)
			if got != tt.want {
				t.Errorf("served %q, want %q", got, tt.want)
			}
			if *r.URL != before {
				t.Error("the request was modified")
			}
			if tt.want == "" {
				wantError(t, w.Result(), http.StatusNotFound, "not found")
			}
		})
	}
}

// FuzzCanonicalPath: every accepted path is canonical, and http.ServeMux does not redirect it.
func FuzzCanonicalPath(f *testing.F) {
	for _, seed := range []string{
		"/", "/a/b", "/a/", "//", "/a/../b", "/%2e%2e/", "/a%2fb", "/a%252fb", "/a%5c", "/\x7f", "/%ff", "*", "http://h/a", "/a;b", "/é", "/a?b//c",
		"/api//", "/%20/", "x:y", "/.%2e", "/a#b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip()
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL, r.RequestURI = u, target

		accepted, routed := "", ""
		mux := http.NewServeMux()
		mux.HandleFunc("/{rest...}", func(_ http.ResponseWriter, r *http.Request) {
			routed = r.URL.Path
			if rest := "/" + r.PathValue("rest"); rest != routed {
				t.Errorf("matched %q for the path %q", rest, routed)
			}
		})
		w := httptest.NewRecorder()
		CanonicalPath(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			accepted = r.URL.Path
			mux.ServeHTTP(w, r)
		})).ServeHTTP(w, r)

		if accepted == "" {
			if w.Code != http.StatusNotFound {
				t.Fatalf("%q is rejected with %d", target, w.Code)
			}
			return
		}
		if w.Code != http.StatusOK || routed != accepted {
			t.Errorf("%q is accepted as %q; ServeMux responds with %d and routes %q", target, accepted, w.Code, routed)
		}
		if path.Clean(accepted) != accepted || len(accepted) > maxPathBytes || !utf8.ValidString(accepted) ||
			strings.ContainsRune(accepted, '\\') || strings.ContainsFunc(accepted, unicode.IsControl) {
			t.Errorf("%q is accepted as %q", target, accepted)
		}
		if accepted != u.Path && accepted+"/" != u.Path {
			t.Errorf("%q is accepted as %q, which is another path", target, accepted)
		}
		again := *u
		again.Path, again.RawPath = accepted, ""
		if second, ok := canonical(&again); !ok || second != accepted {
			t.Errorf("%q becomes %q the second time (%t)", accepted, second, ok)
		}
	})
}
