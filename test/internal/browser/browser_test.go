package browser_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/browser"
)

const good = `<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>Good</title>
<link rel="stylesheet" href="/style.css"></head><body><main><h1>Good</h1><form action="/bad"><label for="a">Name</label> <input id="a" name="a"> <button>Send</button></form></main></body></html>`

const bad = `<!doctype html><html><body><h1>Bad</h1><p style="color: #999; width: 600px">Pale</p><input id="a"><button></button>
<p id="s">No script ran</p><script>document.getElementById("s").textContent = "A script ran"</script></body></html>`

// TestProblems: the problems of a page are found, and a page without any has none.
func TestProblems(t *testing.T) {
	browser.Prepare(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			w.Header().Set("X-Page", "good")
			_, _ = w.Write([]byte(good))
		case "/bad":
			_, _ = w.Write([]byte(bad))
		case "/style.css":
			w.Header().Set("Content-Type", "text/css")
			_, _ = w.Write([]byte(":root { color-scheme: light dark; } body { background: #fff; color: #000; } @media (prefers-color-scheme: dark) { body { background: #000; color: #fff; } } input, button { border: 1px solid #767676; }"))
		}
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	const host = "example.com:8443"
	b := browser.Start(t, roots, map[string][]string{host: {server.Listener.Addr().String()}})
	b.Open("https://" + host + "/good")
	if problems := b.Problems(); len(problems) > 0 {
		t.Errorf("problems of the good page: %q", problems)
	}
	if got := b.Header(host, "x-page"); got != "good" {
		t.Errorf("the header is %q", got)
	}
	b.Fill("#a", "x y")
	b.Click("button")
	b.Await("No script ran")
	if text := b.Text(); !strings.HasPrefix(text, "https://"+host+"/bad?a=x+y\n") {
		t.Errorf("the page is %s", text)
	}
	problems := strings.Join(b.Problems(), "\n")
	for _, want := range []string{"the language is", "no title", "one main", "no viewport", "a script", "style in", "scrolls horizontally", "no label", "no name", "contrast 2.85 < 4.5: text of"} {
		if !strings.Contains(problems, want) {
			t.Errorf("%q is not in\n%s", want, problems)
		}
	}
}
