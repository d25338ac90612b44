package guide_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quoin-dev/quoin/apiserver/guide"
	"github.com/quoin-dev/quoin/docs"
)

// serve returns a page, or what answers when there is none.
func serve(t *testing.T, g guide.Guides, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	if !g.Handles(r) {
		return nil
	}
	g.ServeHTTP(w, r)
	return w
}

// TestPagesOfFiles: links lead to what the server has, and other links are text.
func TestPagesOfFiles(t *testing.T) {
	g, err := guide.New(fstest.MapFS{
		"one.md": {Data: []byte("# One\n\n[two](two.md), [a part](two.md#a-part), [this](#one), [**a** kind](kinds/agent.md), [site](https://example.com/)\n\n| a | b |\n|---|---|\n| `c` | <i>d</i> |\n")},
		"two.md": {Data: []byte("# Two\n\n## A part\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	body := serve(t, g, http.MethodGet, "/docs/one").Body.String()
	for _, want := range []string{
		"<title>One · Quoin</title>", `<a href="/docs/two">two</a>`, `<a href="/docs/two#a-part">a part</a>`, `<a href="#one">this</a>`,
		`<strong>a</strong> kind, <a href="https://example.com/">`, "<td><code>c</code></td>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %s: %s", want, body)
		}
	}
	if strings.Contains(body, "kinds/agent") || strings.Contains(body, "<i>") {
		t.Errorf("the page has a link to a file, or HTML of the file: %s", body)
	}
	for _, path := range []string{"/docs", "/docs/three", "/docs/one.md"} {
		if serve(t, g, http.MethodGet, path) != nil {
			t.Errorf("%s is a guide", path)
		}
	}
	if serve(t, g, http.MethodPost, "/docs/one") != nil {
		t.Error("POST is served")
	}
}

// TestGuides: the guides of the documentation are self-contained, and their links lead to headings that exist.
func TestGuides(t *testing.T) {
	g, err := guide.New(docs.Guides)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/docs/ai", "/docs/mcp"} {
		w := serve(t, g, http.MethodGet, path)
		if w == nil {
			t.Errorf("there is no %s", path)
			continue
		}
		body := w.Body.String()
		if w.Header().Get("Content-Security-Policy") == "" || strings.Contains(body, "src=") || strings.Contains(body, "<script") {
			t.Errorf("%s is not self-contained", path)
		}
		for _, link := range regexp.MustCompile(`href="(/docs/[^"#]*)?(#[^"]*)?"`).FindAllStringSubmatch(body, -1) {
			target := body
			if link[1] != "" {
				target = string(g[link[1]])
			}
			if target == "" || link[2] != "" && !strings.Contains(target, ` id="`+link[2][1:]+`"`) {
				t.Errorf("%s: %s leads nowhere", path, link[0])
			}
		}
	}
}
