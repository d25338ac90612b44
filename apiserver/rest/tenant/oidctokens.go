package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/lastmodified"
	"github.com/quoin-dev/quoin/internal/oidctoken"
)

const (
	oidcTokensPath = "/api/v1/oidc-token-configs" //nolint:gosec // no credential
	oidcTokenPath  = oidcTokensPath + "/{id}"
)

func (a *api) oidcTokensFamily() rest.Family {
	return rest.Family{
		Tag:         "OIDC Token Configs",
		Description: "Tokens with which deployments authenticate to data sources and clouds: the account is their OpenID Connect issuer.",
		Routes: []rest.Route{
			rest.Handle(http.MethodGet, oidcTokensPath, "listOidcTokenConfigs", v1alpha1.PermissionAdmin, "List the OIDC token configurations, the oldest first", a.listOidcTokens),
			rest.Handle(http.MethodPost, oidcTokensPath, "createOidcTokenConfig", v1alpha1.PermissionAdmin, "Create an OIDC token configuration for all deployments", a.createOidcToken),
			rest.Handle(http.MethodGet, oidcTokenPath, "getOidcTokenConfig", v1alpha1.PermissionAdmin, "Get an OIDC token configuration", a.getOidcToken),
			rest.Handle(http.MethodPut, oidcTokenPath, "updateOidcTokenConfig", v1alpha1.PermissionAdmin, "Change an OIDC token configuration, except its audience type", a.updateOidcToken),
			rest.Handle(http.MethodDelete, oidcTokenPath, "deleteOidcTokenConfig", v1alpha1.PermissionAdmin, "Delete an OIDC token configuration: deployments lose its tokens", a.deleteOidcToken),
		},
	}
}

// OidcTokenConfig is a configuration, as documented.
type OidcTokenConfig struct {
	ID           int64          `json:"id" minimum:"1"`
	Name         string         `json:"name" doc:"Name of the file with the token."`
	AudienceType string         `json:"audienceType" enum:"aws,gcp,azure,snowflake,custom"`
	Audience     string         `json:"audience" doc:"The claim aud."`
	SubFormat    *string        `json:"subFormat,omitempty" nullable:"true" doc:"The claim sub; deployment:{deployment_id} when null."`
	CustomClaims map[string]any `json:"customClaims,omitempty" nullable:"true" doc:"Further claims."`
	TargetEnvVar *string        `json:"targetEnvVar,omitempty" nullable:"true" doc:"The variable with the path of the file."`
	IsEnabled    bool           `json:"isEnabled"`
	CreatedAt    time.Time      `json:"createdAt"`
	UpdatedAt    time.Time      `json:"updatedAt"`
}

func shownOidcToken(ctx context.Context, c *v1alpha1.OidcTokenConfig) OidcTokenConfig {
	out := OidcTokenConfig{
		ID: numberOfConfig(c), Name: oidctoken.Name(c), AudienceType: strings.ToLower(string(c.Spec.AudienceType)),
		Audience:  oidctoken.Audience(c, oidctoken.Issuer(rest.ScopeFrom(ctx).Account)),
		SubFormat: rest.NilIfEmpty(c.Spec.SubjectFormat), TargetEnvVar: rest.NilIfEmpty(c.Spec.TargetEnvVar),
		IsEnabled: !oidctoken.Suspended(c), CreatedAt: c.CreationTimestamp.UTC(), UpdatedAt: lastmodified.Of(c).UTC(),
	}
	if len(c.Spec.CustomClaims) > 0 {
		out.CustomClaims = map[string]any{}
	}
	for _, claim := range c.Spec.CustomClaims {
		out.CustomClaims[claim.Name] = json.RawMessage(claim.Value.Raw)
	}
	return out
}

// numberOfConfig returns the number of a configuration, 0 if it has none yet.
func numberOfConfig(c *v1alpha1.OidcTokenConfig) int64 {
	id, _ := ids.Parse(c.Labels[v1alpha1.LabelID])
	return id
}

// oidcTokens returns the configurations of the account, from the cache.
func (a *api) oidcTokens(ctx context.Context) ([]*v1alpha1.OidcTokenConfig, error) {
	list := &v1alpha1.OidcTokenConfigList{}
	if err := a.Kube.List(ctx, list, client.InNamespace(rest.ScopeFrom(ctx).Namespace())); err != nil {
		return nil, err
	}
	return oidctoken.Items(list), nil
}

// findOidcToken returns the configuration with a number.
func (a *api) findOidcToken(ctx context.Context, id string) (*v1alpha1.OidcTokenConfig, error) {
	all, err := a.oidcTokens(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(c *v1alpha1.OidcTokenConfig) bool { return c.Labels[v1alpha1.LabelID] == id })
	if i < 0 {
		return nil, rest.NotFound("id: OIDC token configuration %q does not exist", rest.Clip(id))
	}
	return all[i], nil
}

// ListOidcTokensOutput is all configurations of the account, of which there are few.
type ListOidcTokensOutput struct{ Body []OidcTokenConfig }

func (a *api) listOidcTokens(ctx context.Context, _ *struct{}) (*ListOidcTokensOutput, error) {
	all, err := a.oidcTokens(ctx)
	if err != nil {
		return nil, err
	}
	out := &ListOidcTokensOutput{Body: []OidcTokenConfig{}}
	for _, c := range all {
		if numberOfConfig(c) > 0 {
			out.Body = append(out.Body, shownOidcToken(ctx, c))
		}
	}
	slices.SortFunc(out.Body, func(x, y OidcTokenConfig) int { return int(x.ID - y.ID) })
	return out, nil
}

// OidcTokenInput has the path parameter of routes of one configuration.
type OidcTokenInput struct {
	ID string `path:"id" pattern:"^[0-9]{1,16}$" doc:"Number of the OIDC token configuration."`
}

// OidcTokenOutput is a configuration.
type OidcTokenOutput struct{ Body OidcTokenConfig }

func (a *api) getOidcToken(ctx context.Context, in *OidcTokenInput) (*OidcTokenOutput, error) {
	found, err := a.findOidcToken(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &OidcTokenOutput{shownOidcToken(ctx, found)}, nil
}

// OidcTokenProperties are the properties that can be changed. Null has the same effect as absence in a creation, and removes
// the property in a change.
type OidcTokenProperties struct {
	Name           rest.Nullable[string]                     `json:"name,omitempty" maxLength:"63" pattern:"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$" patternDescription:"lower-case letters, digits and hyphens, from a letter or digit to a letter or digit" doc:"Name of the file with the token, unique in the account. When null, the audience type." example:"aws"`
	CustomAudience rest.Nullable[string]                     `json:"customAudience,omitempty" minLength:"1" maxLength:"512" pattern:"^[\\x21-\\x7E]+$" patternDescription:"printable ASCII without spaces" doc:"The claim aud, required for the audience type custom. When null, that of the audience type."`
	SubFormat      rest.Nullable[string]                     `json:"subFormat,omitempty" maxLength:"200" pattern:"^(?:[A-Za-z0-9:_-]|\\{(?:deployment_id|component|region)\\})+$" patternDescription:"letters, digits, :, _, -, {deployment_id}, {component} and {region}" doc:"The claim sub. When null, deployment:{deployment_id}."`
	CustomClaims   rest.Nullable[map[string]json.RawMessage] `json:"customClaims,omitempty" doc:"Further claims, at most 16 with 4 KiB together."`
	TargetEnvVar   rest.Nullable[string]                     `json:"targetEnvVar,omitempty" maxLength:"128" pattern:"^[A-Z_][A-Z0-9_]*$" patternDescription:"upper-case letters, digits and _, not beginning with a digit" doc:"The variable with the path of the file; none when null." example:"AWS_WEB_IDENTITY_TOKEN_FILE"`
	IsEnabled      rest.Nullable[bool]                       `json:"isEnabled,omitempty" doc:"True when null."`
}

// apply sets the properties of a configuration that are given.
func (p *OidcTokenProperties) apply(spec *v1alpha1.OidcTokenConfigSpec) error {
	if p.CustomAudience.Given {
		spec.Audience = ptr.Deref(p.CustomAudience.Value, "")
	}
	if p.SubFormat.Given {
		spec.SubjectFormat = ptr.Deref(p.SubFormat.Value, "")
	}
	if p.TargetEnvVar.Given {
		spec.TargetEnvVar = ptr.Deref(p.TargetEnvVar.Value, "")
	}
	if p.IsEnabled.Given {
		spec.Suspend = nil
		if !ptr.Deref(p.IsEnabled.Value, true) {
			spec.Suspend = ptr.To(true)
		}
	}
	if spec.AudienceType == v1alpha1.OidcAudienceCustom && spec.Audience == "" {
		return rest.BadRequest("customAudience: required for the audience type custom")
	}
	if !p.CustomClaims.Given {
		return nil
	}
	return setClaims(spec, ptr.Deref(p.CustomClaims.Value, nil))
}

// reservedClaims are the claims that every token has, as in the schema of the kind.
var reservedClaims = []string{"aud", "exp", "iat", "iss", "jti", "nbf", "platform.quoin.dev", "sub"}

const (
	maxClaims    = 16
	maxClaimName = 128
)

func setClaims(spec *v1alpha1.OidcTokenConfigSpec, claims map[string]json.RawMessage) error {
	if len(claims) > maxClaims {
		return rest.BadRequest("customClaims: %d claims; allowed: at most %d", len(claims), maxClaims)
	}
	spec.CustomClaims = nil
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if slices.Contains(reservedClaims, name) {
			return rest.BadRequest("customClaims: %q is set in every token; allowed: other names than %s", name, strings.Join(reservedClaims, ", "))
		}
		if name == "" || len(name) > maxClaimName {
			return rest.BadRequest("customClaims: the name %q has %d bytes; allowed: 1 to %d", rest.Clip(name), len(name), maxClaimName)
		}
		if strings.TrimSpace(string(claims[name])) == "null" {
			return rest.BadRequest("customClaims: %q is null; allowed: any other JSON value", name)
		}
		spec.CustomClaims = append(spec.CustomClaims, v1alpha1.OidcClaim{Name: name, Value: apiextensionsv1.JSON{Raw: claims[name]}})
	}
	return nil
}

// checkOidcToken returns an error if a configuration could not be in effect beside the others of the account.
func checkOidcToken(all []*v1alpha1.OidcTokenConfig, c *v1alpha1.OidcTokenConfig) error {
	if err := oidctoken.Check(c); err != nil {
		return rest.BadRequest("%s", err)
	}
	for _, other := range all {
		if other.Name != c.Name && oidctoken.Name(other) == oidctoken.Name(c) {
			return rest.Conflict("name: %q is the name of another OIDC token configuration of the account", oidctoken.Name(c))
		}
	}
	if oidctoken.Suspended(c) {
		return nil
	}
	if field, other := oidctoken.Overlapping(all, c); other != nil {
		return rest.Conflict("%s: OIDC token configuration %q has %s in the same deployments", field, oidctoken.Name(other), c.Spec.TargetEnvVar)
	}
	return nil
}

// audienceTypes are the documented names of the types.
var audienceTypes = map[string]v1alpha1.OidcAudienceType{
	"aws": v1alpha1.OidcAudienceAWS, "azure": v1alpha1.OidcAudienceAzure, "custom": v1alpha1.OidcAudienceCustom,
	"gcp": v1alpha1.OidcAudienceGCP, "snowflake": v1alpha1.OidcAudienceSnowflake,
}

// CreateOidcTokenInput is the body of a creation.
type CreateOidcTokenInput struct {
	Body struct {
		AudienceType string `json:"audienceType" maxLength:"64" doc:"aws, gcp, azure, snowflake or custom, ignoring case. It cannot be changed." example:"aws"`
		OidcTokenProperties
	}
}

func (a *api) createOidcToken(ctx context.Context, in *CreateOidcTokenInput) (*OidcTokenOutput, error) {
	kind, ok := audienceTypes[strings.ToLower(in.Body.AudienceType)]
	if !ok {
		return nil, rest.BadRequest("audienceType: %q; allowed: aws, gcp, azure, snowflake, custom", rest.Clip(in.Body.AudienceType))
	}
	all, err := a.oidcTokens(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) >= oidctoken.MaxPerAccount {
		return nil, rest.Conflict("the account has %d OIDC token configurations; allowed: at most %d", len(all), oidctoken.MaxPerAccount)
	}
	name := ptr.Deref(in.Body.Name.Value, "")
	if name == "" {
		name = free(strings.ToLower(string(kind)), all, oidctoken.Name)
	}
	created := &v1alpha1.OidcTokenConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: rest.ScopeFrom(ctx).Namespace(), Name: free(name, all, (*v1alpha1.OidcTokenConfig).GetName),
	}}
	created.Spec = v1alpha1.OidcTokenConfigSpec{Name: name, AudienceType: kind}
	if err := in.Body.apply(&created.Spec); err != nil {
		return nil, err
	}
	if err := checkOidcToken(all, created); err != nil {
		return nil, err
	}
	w := a.Kube.Expect(created)
	defer w.Stop()
	if err := a.Kube.Create(ctx, created); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil, rest.Conflict("name: %q is the name of another OIDC token configuration of the account", name)
		}
		return nil, err
	}
	var current *v1alpha1.OidcTokenConfig
	err = w.Until(ctx, edit.Timeout, func(o metav1.Object, _ bool) bool {
		current, _ = o.(*v1alpha1.OidcTokenConfig)
		return current != nil && current.UID == created.UID && numberOfConfig(current) > 0
	})
	if err != nil {
		return nil, err
	}
	recording.Identified(ctx, current)
	return &OidcTokenOutput{shownOidcToken(ctx, current)}, nil
}

// free returns a name that no object has: wanted, or wanted with a number.
func free[T any](wanted string, all []T, nameOf func(T) string) string {
	const longest = 60 // leaves room for the number
	name := wanted
	for i := 2; slices.ContainsFunc(all, func(o T) bool { return nameOf(o) == name }); i++ {
		name = fmt.Sprintf("%s-%d", strings.TrimRight(wanted[:min(len(wanted), longest)], "-"), i)
	}
	return name
}

// UpdateOidcTokenInput has the properties to change.
type UpdateOidcTokenInput struct {
	OidcTokenInput
	Body *OidcTokenProperties
}

func (a *api) updateOidcToken(ctx context.Context, in *UpdateOidcTokenInput) (*OidcTokenOutput, error) {
	found, err := a.findOidcToken(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Body == nil {
		return &OidcTokenOutput{shownOidcToken(ctx, found)}, nil
	}
	all, err := a.oidcTokens(ctx)
	if err != nil {
		return nil, err
	}
	changed, err := edit.Change(ctx, a.Kube, found, func(edited *v1alpha1.OidcTokenConfig) error {
		if in.Body.Name.Given {
			edited.Spec.Name = ptr.Deref(in.Body.Name.Value, "")
		}
		if err := in.Body.apply(&edited.Spec); err != nil {
			return err
		}
		return checkOidcToken(all, edited)
	})
	if err != nil {
		return nil, err
	}
	return &OidcTokenOutput{shownOidcToken(ctx, changed)}, nil
}

func (a *api) deleteOidcToken(ctx context.Context, in *OidcTokenInput) (*rest.SuccessOutput, error) {
	found, err := a.findOidcToken(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	live := &v1alpha1.OidcTokenConfig{} // the cache has no owners of fields
	if err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(found), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, edit.ErrDeleted
		}
		return nil, err
	}
	if owner := fieldowner.OfSpec(live); owner != "" {
		return nil, rest.Conflict("OIDC token configuration %q is applied by %q, which would create it again: delete it at its source, such as Git", in.ID, owner)
	}
	if err := edit.Delete(ctx, a.Kube, live); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}
