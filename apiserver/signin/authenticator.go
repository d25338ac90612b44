package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/content/oauth"
)

// tokens authenticates access tokens of Server.
type tokens struct {
	store  *oauth.Store
	people People
	budget *auth.Budget
}

// NewAuthenticator returns an authenticator of the access tokens that Server issues. The principal is that of a
// token of the person's issuer. It makes no request to the Kubernetes API server.
func NewAuthenticator(o Options) auth.Authenticator {
	return &tokens{o.Store, o.People, auth.NewTokenBudget(o.Clock)}
}

// errToken is returned for every invalid access token.
var errToken = auth.Invalid("there is no such access token: it has expired, was revoked, or is that of another account")

// errScope is returned for a token of a client of MCP on another path (RFC 6750, section 3.1).
var errScope = fmt.Errorf("%w: insufficient_scope: the access token has the scope %q, which is valid for %s only", auth.ErrForbidden, oauth.ScopeMCP, mcpPath)

// Authenticate implements auth.Authenticator.
func (t *tokens) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*auth.Principal, error) {
	text, ok := auth.TokenIn(r, oauth.AccessPrefix)
	if !ok {
		return nil, auth.OtherForm
	}
	if len(text) > maxToken {
		return nil, errToken
	}
	if err := t.budget.Spend(ctx, account.Name, text); err != nil {
		return nil, err
	}
	grant, err := t.store.Find(ctx, string(account.UID), text)
	if errors.Is(err, oauth.ErrUnknown) {
		t.budget.Disprove(account.Name, text)
		return nil, errToken
	}
	if err != nil {
		return nil, err
	}
	p, err := person(ctx, t.people, t.store, account, grant.Person)
	if err != nil {
		return nil, err
	}
	t.budget.Prove(ctx, account.Name, text)
	if grant.Scope == oauth.ScopeMCP && r.URL.Path != mcpPath {
		return nil, errScope
	}
	return p, nil
}
