package signin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
)

// Integrations complete the authorization of OAuth integrations; *usertokens.Service implements it.
type Integrations interface {
	// Complete ends an authorization that a person, the ScimUser with an id, has begun, with the response of a provider at a
	// path of the account. It returns the name of the integration. A *content.Error has a message for the person.
	Complete(ctx context.Context, account *v1alpha1.Account, user, path string, response url.Values) (string, error)
}

// failedAuthorization is the name of the event of an authorization that has failed.
var failedAuthorization = audit.Declare("Failed to authorize OAuth integration")

// isIntegrationPath reports whether a path is that of a redirect URI of an integration.
func isIntegrationPath(path string) bool {
	rest, found := strings.CutPrefix(path, oauthintegration.CallbackPath)
	return found && (rest == "" || strings.HasPrefix(rest, "/") && !strings.Contains(rest[1:], "/"))
}

// integrationCallback serves the redirect of the provider of an integration (RFC 6749, section 4.1.2). The browser has a session
// of the person who has begun the authorization: an attacker who makes another person open an address of a provider gets no token of
// that person.
func (s *Server) integrationCallback(w http.ResponseWriter, r *http.Request, in *request) {
	if s.Integrations == nil {
		s.refusePath(w, r)
		return
	}
	if wait := s.limits.logins.take(r, in.account.Name, s.Clock.Now()); wait > 0 {
		s.failTooMany(w, r, wait)
		return
	}
	if in.browser == nil {
		redirectTo(w, r, loginURL(r.URL))
		return
	}
	query, who := r.URL.Query(), in.browser.principal
	name, err := "", error(&content.Error{Reason: content.Invalid, Message: "The response of the provider is malformed. Begin the authorization again."})
	if who.User == "" {
		err = &content.Error{Reason: content.Forbidden, Message: "You are not a user of this account. Ask an administrator."}
	} else if checkOnce(query) == nil && query.Get("state") != "" && (query.Get("code") != "" || query.Get("error") != "") {
		name, err = s.Integrations.Complete(r.Context(), in.account, who.User, r.URL.Path, query)
	}
	var rejected *content.Error
	switch {
	case errors.As(err, &rejected):
		e := audit.Event{Name: failedAuthorization, Actor: audit.Actor{Kind: audit.ActorUser, ID: who.ID, Email: who.Email}}
		s.recordFailed(r.Context(), in, e, rejected.Message)
		s.render(w, r, http.StatusBadRequest, "message", pageData{Title: "The authorization has failed", Content: map[string]any{"Text": rejected.Message, "Problem": true}})
	case err != nil:
		s.failUnavailable(w, r, err)
	default:
		s.render(w, r, http.StatusOK, "message", pageData{Title: "The integration is authorized", Content: map[string]any{
			"Text": "You have authorized " + name + ". You can close this page.",
		}})
	}
}

// Serves reports whether a context is that of a request to a Server.
func Serves(ctx context.Context) bool { return requestOf(ctx) != nil }
