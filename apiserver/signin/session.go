package signin

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/content/oauth"
)

// sessionCookie has the secret of a session. Browsers accept its name only with Secure, Path=/ and without Domain,
// so no other host can set it.
const sessionCookie = "__Host-quoin-session"

// browser is the session of the browser that has sent a request.
type browser struct {
	session   *oauth.Session
	principal *auth.Principal
	// secret is the one in the cookie.
	secret string
}

// token returns the token that the forms of the session have.
func (b *browser) token() string {
	mac := hmac.New(sha256.New, []byte(b.secret))
	_, _ = mac.Write([]byte("form"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func setCookie(w http.ResponseWriter, name, value string, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(lifetime / time.Second), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

func deleteCookie(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// page serves a page with the session of the browser, if there is one. Pages of other hosts of the account
// redirect to that of its URL: cookies belong to a host.
func (s *Server) page(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, in *request) {
		if own := hostOf(in.url); own != hostOf("https://"+r.Host) {
			redirectTo(w, r, in.url+(&url.URL{Path: r.URL.Path, RawQuery: r.URL.RawQuery}).String())
			return
		}
		if err := s.findBrowser(r, in); err != nil {
			s.failUnavailable(w, r, err)
			return
		}
		next(w, r, in)
	}
}

// findBrowser sets the session of the browser. That of a deactivated person ends.
func (s *Server) findBrowser(r *http.Request, in *request) error {
	cookies := r.CookiesNamed(sessionCookie)
	if len(cookies) != 1 || len(cookies[0].Value) > maxToken {
		return nil
	}
	found, err := s.Store.Session(r.Context(), in.stored(), cookies[0].Value)
	if errors.Is(err, oauth.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	principal, err := s.person(r.Context(), in, found.Person)
	if errors.Is(err, auth.ErrNoCredential) {
		return nil
	}
	if err != nil {
		return err
	}
	found.UserUID = cmp.Or(found.UserUID, principal.UserUID) // for what is granted in the session
	in.browser = &browser{found, principal, cookies[0].Value}
	return nil
}

// form serves a form of a page of the session.
func (s *Server) form(next handler) handler {
	return s.page(func(w http.ResponseWriter, r *http.Request, in *request) {
		form, err := formOf(r)
		var wrong *protocolError
		switch {
		case errors.As(err, &wrong):
			s.fail(w, r, http.StatusBadRequest, "The form is malformed", "Open the page again.")
			return
		case err != nil:
			writeProtocolError(w, r, err)
			return
		case in.browser == nil:
			s.fail(w, r, http.StatusUnauthorized, "You are signed out", "Your session has ended. Sign in and try again.")
			return
		case isForeign(r, in) || !hmac.Equal([]byte(form.Get("csrf")), []byte(in.browser.token())):
			s.fail(w, r, http.StatusForbidden, "The form is not from this page", "Open the page again, and send its form.")
			return
		}
		form.Del("csrf")
		next(w, r, in)
	})
}

// isForeign reports whether a form was sent by a page of another site.
func isForeign(r *http.Request, in *request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // an older browser
		origin := r.Header.Get("Origin")
		return origin != "" && origin != in.url
	}
	return true
}

// sessionsPage serves the list of the person's sessions and clients.
func (s *Server) sessionsPage(w http.ResponseWriter, r *http.Request, in *request) {
	if in.browser == nil {
		redirectTo(w, r, loginURL(r.URL))
		return
	}
	s.showSessions(w, r, in, "")
}

func (s *Server) showSessions(w http.ResponseWriter, r *http.Request, in *request, note string) {
	sessions, err := s.Store.Sessions(r.Context(), string(in.account.UID), in.browser.session.Person)
	var grants []*oauth.Grant
	if err == nil {
		grants, err = s.Store.Grants(r.Context(), string(in.account.UID), in.browser.session.Person)
	}
	if err != nil {
		s.failUnavailable(w, r, err)
		return
	}
	type row struct {
		ID, Name, Address string
		Created, Used     time.Time
		Own               bool
	}
	var browsers, applications []row
	for _, one := range sessions {
		name := one.UserAgent
		if name == "" {
			name = "Unknown browser"
		}
		browsers = append(browsers, row{one.ID, name, one.Address, one.CreatedAt, one.LastUsedAt, one.ID == in.browser.session.ID})
	}
	for _, g := range grants {
		applications = append(applications, row{g.ID, clientName(g.ClientID), g.Address, g.CreatedAt, g.LastUsedAt, false})
	}
	s.render(w, r, http.StatusOK, "sessions", pageData{Title: "Your sessions", Content: map[string]any{
		"Note": note, "Browsers": browsers, "Applications": applications, "Action": sessionsPath, "Logout": logoutPath,
	}})
}

// endOne serves the form that ends one session, or revokes what a client was granted.
func (s *Server) endOne(w http.ResponseWriter, r *http.Request, in *request) {
	id, own := r.PostForm.Get("id"), in.browser.session
	end, note := s.Store.EndSession, "The session has ended."
	if r.PostForm.Get("kind") == "application" {
		end, note = s.Store.RevokeGrant, "The application has no access from now on."
	} else if id == own.ID {
		s.logout(w, r, in)
		return
	}
	err := end(r.Context(), in.stored(), own.Person, id)
	if errors.Is(err, oauth.ErrUnknown) {
		err, note = nil, "It had ended already."
	}
	if err != nil {
		s.failUnavailable(w, r, err)
		return
	}
	s.showSessions(w, r, in, note)
}

// logout ends the session of the browser.
func (s *Server) logout(w http.ResponseWriter, r *http.Request, in *request) {
	err := s.Store.EndSession(r.Context(), in.stored(), in.browser.session.Person, in.browser.session.ID)
	if err != nil && !errors.Is(err, oauth.ErrUnknown) {
		s.failUnavailable(w, r, err)
		return
	}
	deleteCookie(w, sessionCookie)
	in.browser = nil
	s.render(w, r, http.StatusOK, "message", pageData{Title: "You are signed out", Content: map[string]any{"Text": "Applications keep their access until you revoke it.", "Link": sessionsPath, "LinkText": "Sign in again"}})
}
