package signin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"
)

//go:embed pages
var pages embed.FS

// templates are the pages by name. Each has the layout.
var templates = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range []string{"approve", "choice", "consent", "device", "message", "sessions"} {
		all[name] = template.Must(template.New(name).Funcs(template.FuncMap{"time": formatTime}).ParseFS(pages, "pages/layout.html", "pages/"+name+".html"))
	}
	return all
}()

func formatTime(t time.Time) string { return t.Format("2 January 2006, 15:04 MST") }

// pageData is what a page shows.
type pageData struct {
	Title string
	// Content depends on the page.
	Content map[string]any
	// FormTargets are the origins to which a form of the page may redirect, besides the page's own.
	FormTargets []string

	// Account is the name of the account, User that of the person, empty without a session, and CSRF the token of
	// forms.
	Account, User, CSRF string
}

// render responds with a page.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, name string, data pageData) {
	in := requestOf(r.Context())
	data.Account = in.name()
	if in.browser != nil {
		data.User, data.CSRF = in.browser.principal.Name, in.browser.token()
	}
	var body bytes.Buffer
	if err := templates[name].ExecuteTemplate(&body, "layout.html", data); err != nil {
		panic(err) // a bug in a template
	}
	setPageHeaders(w, data.FormTargets)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// setPageHeaders sets the headers of a page. It loads nothing but the style sheet, and no other page embeds it.
func setPageHeaders(w http.ResponseWriter, targets []string) {
	h := w.Header()
	actions := "'self'"
	for _, target := range targets {
		if strings.Contains(target, "[") { // the grammar of the header has no IPv6 addresses
			target = "http:"
		}
		actions += " " + target
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action "+actions+"; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// fail responds with a page about a failure.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	content := map[string]any{"Text": text, "Problem": true}
	if in := requestOf(r.Context()); len(issuers(in.account)) > 0 {
		content["Link"], content["LinkText"] = loginPath, "Sign in"
	}
	s.render(w, r, status, "message", pageData{Title: title, Content: content})
}

// webCallback serves the redirect URI of the web client, for a person who comes there without a web application: one is served in
// front of this server, for the paths below /app. The code in the address expires unused.
func (s *Server) webCallback(w http.ResponseWriter, r *http.Request, _ *request) {
	s.render(w, r, http.StatusNotFound, "message", pageData{Title: "There is no web application here", Content: map[string]any{
		"Text": "This account has no web application at this address. Use the command line or the REST API.", "Problem": true,
		"Link": sessionsPath, "LinkText": "Your sessions",
	}})
}

// failUnavailable responds to a server-side failure.
func (s *Server) failUnavailable(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Retry-After", "1")
	s.fail(w, r, http.StatusServiceUnavailable, "Sign-in is not available now", "Try again in a moment. ("+unavailable(r, err)+")")
}

// redirectTo redirects to a URL. Its query may have a code, so no page gets it as the referrer.
func redirectTo(w http.ResponseWriter, _ *http.Request, url string) {
	h := w.Header()
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Location", url)
	w.WriteHeader(http.StatusSeeOther)
}

// serveStyle serves the style sheet of the pages.
func serveStyle(w http.ResponseWriter, _ *http.Request, _ *request) {
	text, err := pages.ReadFile("pages/style.css")
	if err != nil {
		panic(err) // it is embedded
	}
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(text)
}
