package tenant

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/usertokens"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/ratelimit"
)

const (
	userTokensPath = "/api/v1/user-oauth-tokens" //nolint:gosec // no credential
	userTokenPath  = userTokensPath + "/{integrationId}"
)

// UserTokens are the OAuth tokens of people: a *usertokens.Service.
type UserTokens interface {
	Begin(ctx context.Context, a *v1alpha1.Account, user string, integration int64) (*usertokens.Authorization, error)
	List(ctx context.Context, a *v1alpha1.Account, user string) ([]*usertoken.Token, error)
	Find(ctx context.Context, a *v1alpha1.Account, user string, integration int64) (*usertoken.Token, error)
	Revoke(ctx context.Context, a *v1alpha1.Account, user string, integration int64) error
}

func (a *api) userTokensFamily() rest.Family {
	return rest.Family{
		Tag:         "User OAuth Tokens",
		Description: "Tokens of the caller for OAuth integrations. The tokens themselves are never shown.",
		Routes: []rest.Route{
			rest.Handle(http.MethodGet, userTokensPath, "listUserOAuthTokens", rest.NoPermission, "List the caller's OAuth tokens, the oldest first", a.listUserTokens),
			rest.Handle(http.MethodGet, userTokenPath, "getUserOAuthToken", rest.NoPermission, "Get the caller's OAuth token for an integration", a.getUserToken),
			rest.Handle(http.MethodDelete, userTokenPath, "revokeUserOAuthToken", rest.NoPermission, "Delete the caller's OAuth token for an integration, and revoke it at the provider", a.revokeUserToken),
			rest.Handle(http.MethodPost, userTokenPath+"/initiate", "initiateOAuthFlow", rest.NoPermission, "Begin the authorization of an integration by the caller", a.initiate),
		},
	}
}

const (
	// initiatesPerSecond and initiateBurst limit how often a person begins an authorization.
	initiatesPerSecond, initiateBurst = 0.2, 20
	maxInitiators                     = 10_000
)

func newInitiates() *ratelimit.Limits[string] {
	return ratelimit.New[string](initiatesPerSecond, initiateBurst, maxInitiators)
}

// UserOAuthToken is a token of the caller, as documented.
type UserOAuthToken struct {
	ID                    int64      `json:"id" minimum:"1"`
	UserID                int64      `json:"userId" minimum:"1"`
	IntegrationID         int64      `json:"integrationId" minimum:"1"`
	Status                string     `json:"status" enum:"active,refresh_failed,authorization_required" doc:"refresh_failed: it is tried again; authorization_required: the person has to authorize the integration again."`
	AccessTokenExpiresAt  *time.Time `json:"accessTokenExpiresAt,omitempty" nullable:"true" doc:"Null if the provider does not tell."`
	RefreshTokenExpiresAt *time.Time `json:"refreshTokenExpiresAt,omitempty" nullable:"true" doc:"Null if the provider does not tell."`
	LastError             *string    `json:"lastError,omitempty" nullable:"true" doc:"Why the last refresh has failed."`
	CreatedAt             time.Time  `json:"createdAt"`
	UpdatedAt             time.Time  `json:"updatedAt"`
}

func shownUserToken(t *usertoken.Token) UserOAuthToken {
	return UserOAuthToken{
		ID: t.ID, UserID: number.Of("User", t.User), IntegrationID: t.Integration, Status: string(t.Status),
		AccessTokenExpiresAt: nilIfZero(t.AccessExpiresAt), RefreshTokenExpiresAt: nilIfZero(t.RefreshExpiresAt), LastError: rest.NilIfEmpty(t.LastError),
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}

func nilIfZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// person returns the id of the caller as a user. Other callers, and people without a ScimUser, whose deactivation would not be
// known, have no tokens.
func (a *api) person(ctx context.Context) (string, error) {
	if a.UserTokens == nil {
		return "", rest.Unavailable("OAuth tokens of users are not available: quoin apiserver has no --database-url")
	}
	p := rest.ScopeFrom(ctx).Principal
	if p.User == "" {
		return "", rest.Forbidden("%s %q is not a user of the account: OAuth tokens belong to users, who sign in or have a key of their own", p.Kind, p.Name)
	}
	if p.IsLimited() {
		return "", rest.Forbidden("%s %q is limited to certain deployments; OAuth tokens concern the whole account", p.Kind, p.Name)
	}
	return p.User, nil
}

// UserTokenInput has the path parameter of routes of one token.
type UserTokenInput struct {
	IntegrationID string `path:"integrationId" pattern:"^[0-9]{1,16}$" doc:"Number of the OAuth integration."`
}

func (in *UserTokenInput) number() int64 {
	n, _ := strconv.ParseInt(in.IntegrationID, 10, 64) // 0, which no integration has, is not found
	return n
}

// ListUserTokensOutput is all tokens of the caller: at most one for each integration.
type ListUserTokensOutput struct{ Body []UserOAuthToken }

func (a *api) listUserTokens(ctx context.Context, _ *struct{}) (*ListUserTokensOutput, error) {
	user, err := a.person(ctx)
	if err != nil {
		return nil, err
	}
	all, err := a.UserTokens.List(ctx, rest.ScopeFrom(ctx).Account, user)
	if err != nil {
		return nil, err
	}
	out := &ListUserTokensOutput{Body: []UserOAuthToken{}}
	for _, t := range all {
		out.Body = append(out.Body, shownUserToken(t))
	}
	return out, nil
}

// UserTokenOutput is a token.
type UserTokenOutput struct{ Body UserOAuthToken }

func (a *api) getUserToken(ctx context.Context, in *UserTokenInput) (*UserTokenOutput, error) {
	user, err := a.person(ctx)
	if err != nil {
		return nil, err
	}
	found, err := a.UserTokens.Find(ctx, rest.ScopeFrom(ctx).Account, user, in.number())
	if err != nil {
		return nil, err
	}
	return &UserTokenOutput{shownUserToken(found)}, nil
}

func (a *api) revokeUserToken(ctx context.Context, in *UserTokenInput) (*rest.SuccessOutput, error) {
	user, err := a.person(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.UserTokens.Revoke(ctx, rest.ScopeFrom(ctx).Account, user, in.number()); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// InitiateOutput is where the person continues.
type InitiateOutput struct {
	Body struct {
		AuthorizationURL string    `json:"authorizationUrl" format:"uri" doc:"The address at the provider to open in a browser in which the person is signed in to this account." example:"https://login.example.com/authorize?client_id=quoin"`
		ExpiresAt        time.Time `json:"expiresAt" doc:"When the authorization has to be complete."`
	}
}

func (a *api) initiate(ctx context.Context, in *UserTokenInput) (*InitiateOutput, error) {
	user, err := a.person(ctx)
	if err != nil {
		return nil, err
	}
	account := rest.ScopeFrom(ctx).Account
	if wait := a.initiates.Take(string(account.UID)+"/"+user, a.Now()); wait > 0 {
		return nil, rest.NewProblem(http.StatusTooManyRequests, "too many authorizations were begun: try again in %d seconds", int(wait/time.Second)+1)
	}
	begun, err := a.UserTokens.Begin(ctx, account, user, in.number())
	if err != nil {
		return nil, err
	}
	out := &InitiateOutput{}
	out.Body.AuthorizationURL, out.Body.ExpiresAt = begun.URL, begun.ExpiresAt
	return out, nil
}
