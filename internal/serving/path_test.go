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

func TestCanonicalPath(t *testing.T) {
	long := "/" + strings.Repeat("a", maxPathBytes-1)
	tests := []struct {
		target string // as on the wire
		want   string // what is served; empty for 404
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
		{long, long},
		{long + "/", ""},
		{long + "a", ""},
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
	for _, tt := range tests {
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
				t.Error("changed the caller's request")
			}
			if tt.want == "" {
				wantError(t, w.Result(), http.StatusNotFound, "not found")
			}
		})
	}
}

// FuzzCanonicalPath: what passes is one plain path, and http.ServeMux takes it as it is.
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

		passed, routed := "", ""
		mux := http.NewServeMux()
		mux.HandleFunc("/{rest...}", func(_ http.ResponseWriter, r *http.Request) {
			routed = r.URL.Path
			if rest := "/" + r.PathValue("rest"); rest != routed {
				t.Errorf("matched %q for the path %q", rest, routed)
			}
		})
		w := httptest.NewRecorder()
		CanonicalPath(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = r.URL.Path
			mux.ServeHTTP(w, r)
		})).ServeHTTP(w, r)

		if passed == "" {
			if w.Code != http.StatusNotFound {
				t.Fatalf("%q is refused with %d", target, w.Code)
			}
			return
		}
		if w.Code != http.StatusOK || routed != passed {
			t.Errorf("%q passes as %q; ServeMux answers %d and routes %q", target, passed, w.Code, routed)
		}
		if path.Clean(passed) != passed || len(passed) > maxPathBytes || !utf8.ValidString(passed) ||
			strings.ContainsRune(passed, '\\') || strings.ContainsFunc(passed, unicode.IsControl) {
			t.Errorf("%q passes as %q", target, passed)
		}
		if passed != u.Path && passed+"/" != u.Path {
			t.Errorf("%q passes as %q, which is another path", target, passed)
		}
		again := *u
		again.Path, again.RawPath = passed, ""
		if second, ok := canonical(&again); !ok || second != passed {
			t.Errorf("%q becomes %q the second time (%t)", passed, second, ok)
		}
	})
}
