package deployments

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/token"
	"github.com/quoin-dev/quoin/internal/masking"
)

// Lifetimes of tokens, in seconds.
const (
	defaultLifetime = 86400
	maxLifetime     = 86400
)

func (a *api) tokensFamily() rest.Family {
	return rest.Family{Tag: "Tokens", Description: "Short-lived tokens for the data API of an environment.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, environmentPath+"/tokens", "getDeploymentEnvironmentTokens", v1alpha1.PermissionDeploymentRead,
			"List the caller's tokens that are not expired, without the tokens", a.listTokens),
		rest.Handle(http.MethodPost, environmentPath+"/tokens-for-meta-sync", "createDeploymentEnvironmentTokenForMetaSync", v1alpha1.PermissionSchemaRead,
			"Create a token that reads metadata and cannot query data", a.createMetadataToken),
		rest.Handle(http.MethodPost, environmentPath+"/tokens", "createDeploymentEnvironmentToken", v1alpha1.PermissionDeploymentRead,
			"Create a token that queries data; callers without the permission DeploymentUpdate must be users with a role", a.createDataToken),
		rest.Handle(http.MethodPost, deploymentPath+"/token", "deploymentToken", v1alpha1.PermissionDeploymentRead,
			"Create a token that queries the data of production; callers without the permission DeploymentUpdate must be users with a role", a.createDeploymentToken),
	}}
}

// InEnvironment has the path parameters of routes below an environment.
type InEnvironment struct {
	rest.InDeployment
	Environment string `path:"environmentId" pattern:"^[0-9]{1,16}$" doc:"Number of the environment."`
}

// CreateTokenInput is the body of a creation.
type CreateTokenInput struct {
	InEnvironment
	Body struct {
		SecurityContext rest.ExactObject `json:"security_context" secret:"true" doc:"Embedded in the token; determines which parts of the model are visible. Ignored for data tokens of callers without the permission DeploymentUpdate."`
		ExpiresIn       *int64           `json:"expires_in,omitempty" nullable:"true" minimum:"1" maximum:"86400" doc:"Seconds; 86400 when absent."`
		Scopes          []string         `json:"scopes,omitempty" nullable:"true" maxItems:"8" enum:"meta" doc:"meta limits the token to metadata."`
	}
}

// Token is a token and its lifetime.
type Token struct {
	ID              string         `json:"id,omitempty" pattern:"^[1-9][0-9]*$" doc:"Number of the token in the list of tokens; absent if it could not be kept."`
	Token           string         `json:"token" doc:"A JWT, sent in Authorization without a prefix. Shown only when it is created: [HIDDEN] in the list."`
	Scopes          []string       `json:"scopes" enum:"meta" doc:"meta if the token is limited to metadata; empty if it queries data."`
	CreatedAt       time.Time      `json:"created_at"`
	ExpiresAt       time.Time      `json:"expires_at"`
	SecurityContext map[string]any `json:"security_context" doc:"Not kept: empty in the list."`
}

// TokenOutput is the response.
type TokenOutput struct {
	Body struct {
		Data Token `json:"data"`
	}
}

func (a *api) createMetadataToken(ctx context.Context, in *CreateTokenInput) (*TokenOutput, error) {
	return a.createToken(ctx, in, true)
}

func (a *api) createDataToken(ctx context.Context, in *CreateTokenInput) (*TokenOutput, error) {
	metadataOnly := len(in.Body.Scopes) > 0
	if s := rest.ScopeFrom(ctx); metadataOnly && !datatokens.MayEdit(s) && !s.Principal.MayOn(v1alpha1.PermissionSchemaRead, s.Deployment.Name) {
		return nil, datatokens.Lacks(s, v1alpha1.PermissionSchemaRead)
	}
	return a.createToken(ctx, in, metadataOnly)
}

func (a *api) createToken(ctx context.Context, in *CreateTokenInput, metadataOnly bool) (*TokenOutput, error) {
	e, err := a.environment(ctx, in.InEnvironment)
	if err != nil {
		return nil, err
	}
	lifetime := int64(defaultLifetime)
	if in.Body.ExpiresIn != nil {
		lifetime = *in.Body.ExpiresIn
	}
	contents := datatokens.Contents{SecurityContext: in.Body.SecurityContext, MetadataOnly: metadataOnly}
	if !metadataOnly {
		if contents, err = datatokens.For(ctx, in.Body.SecurityContext); err != nil {
			return nil, err
		}
	}
	issued, err := a.sign(ctx, e, contents, lifetime)
	if err != nil {
		return nil, err
	}
	out := &TokenOutput{}
	out.Body.Data = *issued
	return out, nil
}

// environment returns the environment of the path. It may be asleep: a request with the token wakes it.
func (a *api) environment(ctx context.Context, in InEnvironment) (*v1alpha1.Environment, error) {
	all, err := a.Catalog.Environments(rest.ScopeFrom(ctx).Deployment)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Labels[v1alpha1.LabelID] == in.Environment && e.Status.CredentialsSecret != "" {
			return e, nil
		}
	}
	return nil, rest.NotFound("environmentId: environment %s of deployment %s does not exist or is not set up yet", in.Environment, in.ID)
}

// ListTokensInput has the parameters of the list.
type ListTokensInput struct {
	InEnvironment
	rest.Page
}

// TokenList is a page of tokens.
type TokenList struct {
	Body struct {
		Data       []Token         `json:"data"`
		Pagination rest.Pagination `json:"pagination"`
		Items      []Token         `json:"items"`
		PageInfo   rest.PageInfo   `json:"pageInfo"`
	}
}

// listTokens returns what is kept of the caller's tokens: neither the tokens nor their security
// contexts, which may contain personal data.
func (a *api) listTokens(ctx context.Context, in *ListTokensInput) (*TokenList, error) {
	e, err := a.environment(ctx, in.InEnvironment)
	if err != nil {
		return nil, err
	}
	if a.Tokens == nil {
		return nil, rest.Unavailable("the list of tokens is not available: quoin apiserver has no --database-url")
	}
	s := rest.ScopeFrom(ctx)
	kept, err := a.Tokens.List(ctx, s.Content(), string(e.UID), s.Caller(), a.Now())
	if err != nil {
		return nil, err
	}
	page, info, pagination, err := rest.Paginate(ctx, in.Page, kept, func(t token.Token) int64 { return t.ID })
	if err != nil {
		return nil, err
	}
	out := &TokenList{}
	out.Body.Items = make([]Token, len(page))
	for i, t := range page {
		out.Body.Items[i] = Token{
			ID: strconv.FormatInt(t.ID, 10), Token: masking.Hidden, Scopes: scopesOf(t.MetadataOnly),
			CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, SecurityContext: map[string]any{},
		}
	}
	out.Body.Data, out.Body.PageInfo, out.Body.Pagination = out.Body.Items, info, pagination
	return out, nil
}

// scopesOf returns the documented scopes of a token.
func scopesOf(metadataOnly bool) []string {
	if metadataOnly {
		return []string{"meta"}
	}
	return []string{}
}

// keepTimeout is how long the issue of a token waits for the database.
const keepTimeout = 2 * time.Second

// keep keeps an issued token for the list. Without the database the token is issued all the same:
// clients that read metadata do not depend on it.
func (a *api) keep(ctx context.Context, e *v1alpha1.Environment, issued *Token, metadataOnly bool) {
	if a.Tokens == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	s := rest.ScopeFrom(ctx)
	id, err := a.Tokens.Add(ctx, s.Content(), token.Token{
		EnvironmentUID: string(e.UID), MetadataOnly: metadataOnly, CreatedAt: issued.CreatedAt, CreatedBy: s.Caller(), ExpiresAt: issued.ExpiresAt,
	})
	if err != nil {
		log.FromContext(ctx).Error(err, "An issued token is not in the list of tokens", "namespace", e.Namespace, "environment", e.Name)
		return
	}
	issued.ID = strconv.FormatInt(id, 10)
}

// IssueToken returns a function that issues a token that queries the data of an environment, valid for a
// number of seconds, for the live preview of a data model.
func IssueToken(o Options) func(ctx context.Context, e *v1alpha1.Environment, securityContext map[string]any, lifetime int64) (string, error) {
	a := newAPI(o)
	return func(ctx context.Context, e *v1alpha1.Environment, securityContext map[string]any, lifetime int64) (string, error) {
		contents := datatokens.Contents{SecurityContext: securityContext, Permissions: datatokens.PermissionsOf(rest.ScopeFrom(ctx))}
		issued, err := a.sign(ctx, e, contents, lifetime)
		if err != nil {
			return "", err
		}
		return issued.Token, nil
	}
}

// sign returns a token for the caller, which is recorded and kept for the list. The lifetime is in seconds.
func (a *api) sign(ctx context.Context, e *v1alpha1.Environment, in datatokens.Contents, lifetime int64) (*Token, error) {
	signed, err := a.issuer.Sign(ctx, e, in, time.Duration(lifetime)*time.Second)
	if err != nil {
		return nil, err
	}
	if err := recordToken(ctx, e, signed.ExpiresAt, in.MetadataOnly); err != nil {
		return nil, err
	}
	issued := &Token{
		Token: signed.JWT, Scopes: scopesOf(in.MetadataOnly), CreatedAt: signed.CreatedAt, ExpiresAt: signed.ExpiresAt, SecurityContext: signed.SecurityContext,
	}
	a.keep(ctx, e, issued, in.MetadataOnly)
	return issued, nil
}

// recordToken records the issue of a token, without the token.
func recordToken(ctx context.Context, e *v1alpha1.Environment, expires time.Time, metadataOnly bool) error {
	event := audit.Event{
		Name:       audit.CreatedDataToken,
		Deployment: recording.DeploymentOf(rest.ScopeFrom(ctx).Deployment),
		Object:     audit.Object{Kind: "Environment", Namespace: e.Namespace, Name: e.Name, ID: e.Labels[v1alpha1.LabelID]},
		Reason:     "valid until " + expires.Format(time.RFC3339),
	}
	if metadataOnly {
		event.Name = audit.CreatedMetadataToken
	}
	return recording.Do(ctx, event)
}

// DeploymentTokenInput has the lifetime of the token.
type DeploymentTokenInput struct {
	rest.InDeployment
	Body *struct {
		ExpiresIn *int64 `json:"expiresIn,omitempty" nullable:"true" minimum:"60" maximum:"86400" doc:"Seconds; 86400 when absent."`
	}
}

// DeploymentTokenOutput is the response.
type DeploymentTokenOutput struct {
	Body struct {
		CubeAPIToken string `json:"cubeApiToken"`
	}
}

func (a *api) createDeploymentToken(ctx context.Context, in *DeploymentTokenInput) (*DeploymentTokenOutput, error) {
	d := rest.ScopeFrom(ctx).Deployment
	production := &v1alpha1.Environment{}
	if err := a.Kube.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name)}, production); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, rest.Conflict("the deployment has no production environment yet")
		}
		return nil, err
	}
	lifetime := int64(maxLifetime)
	if in.Body != nil && in.Body.ExpiresIn != nil {
		lifetime = *in.Body.ExpiresIn
	}
	contents, err := datatokens.For(ctx, nil)
	if err != nil {
		return nil, err
	}
	issued, err := a.sign(ctx, production, contents, lifetime)
	if err != nil {
		return nil, err
	}
	out := &DeploymentTokenOutput{}
	out.Body.CubeAPIToken = issued.Token
	return out, nil
}
