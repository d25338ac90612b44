package deployments

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/token"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/masking"
)

// Lifetimes of tokens, in seconds.
const (
	defaultLifetime = 86400
	maxLifetime     = 86400
)

// maxContext is the largest security context in bytes: the token must fit into a header.
const maxContext = 8 << 10

// maxClaims is the largest size of the claims of a person's token in bytes. In base64, with its signature, the token fits
// into the 16 KiB of headers that the data-plane server accepts.
const maxClaims = 11 << 10

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
		SecurityContext map[string]any `json:"security_context" secret:"true" doc:"Embedded in the token; determines which parts of the model are visible. Ignored for data tokens of callers without the permission DeploymentUpdate."`
		ExpiresIn       *int64         `json:"expires_in,omitempty" nullable:"true" minimum:"1" maximum:"86400" doc:"Seconds; 86400 when absent."`
		Scopes          []string       `json:"scopes,omitempty" nullable:"true" maxItems:"8" enum:"meta" doc:"meta limits the token to metadata."`
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
	if s := rest.ScopeFrom(ctx); metadataOnly && !mayEdit(s) && !s.Principal.MayOn(v1alpha1.PermissionSchemaRead, s.Deployment.Name) {
		return nil, lacks(s, v1alpha1.PermissionSchemaRead)
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
	contents := contents{security: in.Body.SecurityContext, metadataOnly: metadataOnly}
	if !metadataOnly {
		if contents, err = dataOf(ctx, in.Body.SecurityContext); err != nil {
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
	all, err := a.Catalog.Environments(ctx, rest.ScopeFrom(ctx).Deployment)
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
		issued, err := a.sign(ctx, e, contents{security: securityContext, permissions: permissionsOf(rest.ScopeFrom(ctx))}, lifetime)
		if err != nil {
			return "", err
		}
		return issued.Token, nil
	}
}

// contents are what a token is issued for.
type contents struct {
	// security is the security context.
	security map[string]any
	// metadataOnly is true if the token reads metadata, and queries no data.
	metadataOnly bool
	// permissions are what a person may do with a data token, if it is not all.
	permissions []v1alpha1.Permission
}

// ofGateway reports whether the token is signed with the key that only the gateway has: pods do not accept it themselves.
func (c *contents) ofGateway() bool {
	return c.metadataOnly || c.permissions != nil && !slices.Contains(c.permissions, v1alpha1.PermissionSchemaRead)
}

// dataOf returns the contents of a data token for the caller, who holds DeploymentRead. With DeploymentUpdate, it is a token for
// anyone, with the security context of the request. Otherwise it is a token for the caller only, who must be a person with a role:
// the security context is not that of the request, which could name any user.
func dataOf(ctx context.Context, securityContext map[string]any) (contents, error) {
	s := rest.ScopeFrom(ctx)
	if mayEdit(s) {
		return contents{security: securityContext, permissions: permissionsOf(s)}, nil
	}
	if !isPerson(s.Principal) || !s.Principal.HasRole {
		return contents{}, lacks(s, v1alpha1.PermissionDeploymentUpdate)
	}
	return contents{permissions: permissionsOf(s)}, nil
}

// permissionsOf returns what the caller may do with a data token: nil if it is all, and for programs.
func permissionsOf(s *rest.Scope) []v1alpha1.Permission {
	if !isPerson(s.Principal) {
		return nil
	}
	held, all := []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}, []v1alpha1.Permission{v1alpha1.PermissionSchemaRead, v1alpha1.PermissionSqlRunnerRead}
	for _, p := range all {
		if s.Principal.MayOn(p, s.Deployment.Name) {
			held = append(held, p)
		}
	}
	if len(held) == 1+len(all) {
		return nil
	}
	return held
}

// mayEdit reports whether the caller may create tokens for others.
func mayEdit(s *rest.Scope) bool {
	return s.Principal.MayOn(v1alpha1.PermissionDeploymentUpdate, s.Deployment.Name)
}

func lacks(s *rest.Scope, needed v1alpha1.Permission) error {
	return rest.Forbidden("%s %q does not hold the permission %s on deployment %s", s.Principal.Kind, s.Principal.Name, needed, s.Deployment.Labels[v1alpha1.LabelID])
}

// isPerson reports whether the caller is a person: it has an access token, or a key with an owner.
func isPerson(p *auth.Principal) bool { return p.User != "" || p.Kind == auth.KindUser }

// reserved are the claims that the platform sets. They are removed from a security context.
var reserved = []string{"iat", "exp", "nbf", "iss", "aud", "sub", "jti", "scope", dataapi.ClaimPermissions}

// sign returns a token (docs/decisions/0003). Data tokens are signed with the secret that the pods have, metadata tokens and data
// tokens that must not read metadata with a key that only the gateway has.
func (a *api) sign(ctx context.Context, e *v1alpha1.Environment, in contents, lifetime int64) (*Token, error) {
	securityContext := in.security
	if securityContext == nil {
		securityContext = map[string]any{}
	}
	if size, err := json.Marshal(securityContext); err != nil || len(size) > maxContext {
		return nil, rest.BadRequest("security_context: larger than %d bytes", maxContext)
	}
	secret, key := engine.CredentialsName(e.Name), engine.KeyAPISecret
	if in.ofGateway() {
		secret, key = engine.GatewayCredentialsName(e.Name), engine.KeyMetadata
	}
	stored := &corev1.Secret{}
	if err := a.Kube.Live().Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: secret}, stored); err != nil {
		return nil, err
	}
	created := a.Now().UTC().Truncate(time.Second)
	expires := created.Add(time.Duration(lifetime) * time.Second)
	claims := jwt.MapClaims(maps.Clone(securityContext))
	for _, name := range reserved {
		delete(claims, name)
	}
	if err := a.addPerson(ctx, e.Namespace, claims); err != nil {
		return nil, err
	}
	if !in.metadataOnly {
		var err error
		if expires, err = a.addCredentials(ctx, claims, expires); err != nil {
			return nil, err
		}
	}
	claims["iat"], claims["exp"] = created.Unix(), expires.Unix()
	if in.permissions != nil {
		claims[dataapi.ClaimPermissions] = in.permissions
	}
	if in.metadataOnly {
		claims["scope"] = []string{"meta"}
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(stored.Data[key])
	if err != nil {
		return nil, err
	}
	if err := recordToken(ctx, e, expires, in.metadataOnly); err != nil {
		return nil, err
	}
	issued := &Token{Token: signed, Scopes: scopesOf(in.metadataOnly), CreatedAt: created, ExpiresAt: expires, SecurityContext: securityContext}
	a.keep(ctx, e, issued, in.metadataOnly)
	return issued, nil
}

// personClaim is the claim with the groups and the user attributes of a person, which access policies of data models read.
const personClaim = "cubeCloud"

// addPerson sets the claim of a token for a person: a caller with an access token, or with a key that has an owner. A
// security context cannot replace it. Other callers are programs that may issue tokens for their own users: the claim
// is theirs.
func (a *api) addPerson(ctx context.Context, namespace string, claims jwt.MapClaims) error {
	p := rest.ScopeFrom(ctx).Principal
	if a.Person == nil || !isPerson(p) {
		return nil
	}
	groups, attributes := a.Person(ctx, namespace, p.User)
	claims[personClaim] = map[string]any{"groups": groups, "userAttributes": attributes}
	size, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	if len(size) > maxClaims {
		return rest.Conflict("the security context, and the %d groups and the attributes of user %q, have %d bytes together; allowed: %d, because a token must fit into a header",
			len(groups), p.Name, len(size), maxClaims)
	}
	return nil
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
	contents, err := dataOf(ctx, nil)
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
