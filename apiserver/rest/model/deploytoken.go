package model

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/deploytoken"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// ExchangePath is the path to which cubejs-cli posts a token that does not name a server: the only route
// on which a token in the body authenticates.
const ExchangePath = "/v1/token"

func (a *api) deployTokensFamily() rest.Family {
	return rest.Family{Tag: "Deploy Tokens", Description: "Credentials of programs that deploy the data model. Only their hashes are stored.", Routes: []rest.Route{
		rest.Handle(http.MethodPost, buildPath+"/deploy-token", "createDeployToken", v1alpha1.PermissionDeploymentsManage,
			"Create the deploy token of a deployment, in place of the previous one; it is shown only here", a.createDeployToken),
		rest.Handle(http.MethodPost, buildPath+"/git-token", "createGitToken", v1alpha1.PermissionSchemaUpdate,
			"Create a password of the deployment's repository, which is valid for an hour; it is shown only here", a.createGitToken),
	}}
}

// DeployTokenOutput is the response.
type DeployTokenOutput struct {
	Body struct {
		Token        string    `json:"token" doc:"A JWT, which names the server and the deployment. It is not stored and cannot be shown again."`
		DeploymentID string    `json:"deploymentId"`
		URL          string    `json:"url" doc:"The server."`
		Command      string    `json:"command" doc:"The command that deploys the project in the current directory."`
		CreatedAt    time.Time `json:"createdAt"`
	}
}

func (a *api) createDeployToken(ctx context.Context, in *rest.InDeployment) (*DeployTokenOutput, error) {
	if d := rest.ScopeFrom(ctx).Deployment; !a.isWritable(d) {
		return nil, elsewhere(d)
	}
	issued, url, err := a.issue(ctx, deploytoken.Deploy)
	if err != nil {
		return nil, err
	}
	out := &DeployTokenOutput{}
	out.Body.Token, out.Body.DeploymentID, out.Body.URL, out.Body.CreatedAt = issued.Token, in.ID, url, issued.CreatedAt
	out.Body.Command = "npx cubejs-cli deploy --token " + issued.Token
	return out, nil
}

// GitTokenOutput is the response.
type GitTokenOutput struct {
	Body struct {
		URL       string    `json:"url" doc:"The repository."`
		Username  string    `json:"username"`
		Password  string    `json:"password" doc:"It is not stored and cannot be shown again."`
		ExpiresAt time.Time `json:"expiresAt"`
	}
}

func (a *api) createGitToken(ctx context.Context, in *rest.InDeployment) (*GitTokenOutput, error) {
	if rest.ScopeFrom(ctx).Deployment.Spec.Model.Repository == nil {
		return nil, rest.Conflict("the data model of deployment %s is not in a repository of Quoin", in.ID)
	}
	issued, url, err := a.issue(ctx, deploytoken.Git)
	if err != nil {
		return nil, err
	}
	out := &GitTokenOutput{}
	out.Body.URL, out.Body.Username, out.Body.Password, out.Body.ExpiresAt = url+"/git/"+in.ID+".git", "token", issued.Token, issued.ExpiresAt
	return out, nil
}

// issue issues a token of a kind to the caller, and returns it with the URL of the account's host.
func (a *api) issue(ctx context.Context, kind deploytoken.Kind) (*deploytoken.Issued, string, error) {
	if a.DeployTokens == nil {
		return nil, "", errNoDatabase
	}
	s := rest.ScopeFrom(ctx)
	if s.Principal.Kind == auth.KindDeployToken { // it could be renewed without end
		return nil, "", rest.Forbidden("a deploy token cannot create tokens")
	}
	url := tenant.URL(s.Account)
	creator := deploytoken.Creator{Principal: s.Caller(), User: s.Principal.User, UserUID: s.Principal.UserUID, UserName: s.Principal.UserName}
	issued, err := a.DeployTokens.Issue(ctx, s.Content(), creator, deploytoken.New{Kind: kind, Number: s.Deployment.Labels[v1alpha1.LabelID], URL: url})
	return issued, url, err
}

// ExchangeTokenInput is what cubejs-cli sends.
type ExchangeTokenInput struct {
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"16384" secret:"true"`
	}
}

// ExchangeTokenOutput has a token that names the server.
type ExchangeTokenOutput struct {
	Body struct {
		JWT string `json:"jwt"`
	}
}

// exchangeToken returns a deploy token itself: all name the server.
func (a *api) exchangeToken(ctx context.Context, in *ExchangeTokenInput) (*ExchangeTokenOutput, error) {
	if a.DeployTokens == nil {
		return nil, errNoDatabase
	}
	_, err := a.DeployTokens.Find(ctx, string(rest.ScopeFrom(ctx).Account.UID), in.Body.Token)
	if errors.Is(err, deploytoken.ErrUnknown) {
		return nil, rest.BadRequest("token: %s", deploytoken.ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	out := &ExchangeTokenOutput{}
	out.Body.JWT = in.Body.Token
	return out, nil
}

// errNoDatabase is the error of a server without a database.
var errNoDatabase = rest.Unavailable("the data model is not available: quoin apiserver has no --database-url")

// isNotFound reports whether an error is the rejection of a request for something that does not exist.
func isNotFound(err error) bool {
	var rejected *content.Error
	return errors.As(err, &rejected) && rejected.Reason == content.NotFound
}
