package tenant

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/lastmodified"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
)

const (
	integrationsPath = "/api/v1/oauth-integrations"
	integrationPath  = integrationsPath + "/{id}"
	// clientSecretKey is the key of the client's secret in the Secret of an integration that was created over REST.
	clientSecretKey = "clientSecret"
)

func (a *api) integrationsFamily() rest.Family {
	return rest.Family{
		Tag:         "OAuth Integrations",
		Description: "Systems, such as data sources, that people authorize the platform to use on their behalf.",
		Routes: []rest.Route{
			rest.Handle(http.MethodGet, integrationsPath, "listOAuthIntegrations", v1alpha1.PermissionOAuthIntegrationsManage, "List the OAuth integrations, the oldest first", a.listIntegrations),
			rest.Handle(http.MethodPost, integrationsPath, "createOAuthIntegration", v1alpha1.PermissionOAuthIntegrationsManage, "Create an OAuth integration", a.createIntegration),
			rest.Handle(http.MethodGet, integrationPath, "getOAuthIntegration", v1alpha1.PermissionOAuthIntegrationsManage, "Get an OAuth integration", a.getIntegration),
			rest.Handle(http.MethodPut, integrationPath, "updateOAuthIntegration", v1alpha1.PermissionOAuthIntegrationsManage, "Replace the properties of an OAuth integration", a.updateIntegration),
			rest.Handle(http.MethodDelete, integrationPath, "deleteOAuthIntegration", v1alpha1.PermissionOAuthIntegrationsManage, "Delete an OAuth integration and the tokens of people for it", a.deleteIntegration),
		},
	}
}

// OAuthIntegration is an integration, as documented. The client's secret is never shown.
type OAuthIntegration struct {
	ID          int64          `json:"id" minimum:"1"`
	Name        string         `json:"name"`
	Type        string         `json:"type" doc:"The system; data tokens have the access token of a person below this name."`
	AuthURL     string         `json:"authUrl" format:"uri" doc:"The authorization endpoint." example:"https://login.example.com/authorize"`
	TokenURL    string         `json:"tokenUrl" format:"uri" doc:"The token endpoint." example:"https://login.example.com/token"`
	ClientID    string         `json:"clientId"`
	RedirectURI string         `json:"redirectUri" format:"uri" doc:"The redirect URI to register at the provider." example:"https://demo.example.com/auth/integrations/callback"`
	Scopes      []string       `json:"scopes,omitempty" nullable:"true"`
	Config      map[string]any `json:"config,omitempty" nullable:"true" doc:"revocationUrl, clientAuthentication and authorizationParameters have an effect; others are kept."`
	CreatedAt   time.Time      `json:"createdAt"`
	UpdatedAt   time.Time      `json:"updatedAt"`
}

func shownIntegration(ctx context.Context, i *v1alpha1.OAuthIntegration) OAuthIntegration {
	spec := &i.Spec
	return OAuthIntegration{
		ID: numberOfIntegration(i), Name: oauthintegration.Name(i), Type: spec.Type, AuthURL: string(spec.AuthorizationURL), TokenURL: string(spec.TokenURL),
		ClientID: spec.ClientID, RedirectURI: oauthintegration.RedirectURL(rest.ScopeFrom(ctx).Account, i), Scopes: spec.Scopes, Config: shownConfig(spec),
		CreatedAt: i.CreationTimestamp.UTC(), UpdatedAt: lastmodified.Of(i).UTC(),
	}
}

// numberOfIntegration returns the number of an integration, 0 if it has none yet.
func numberOfIntegration(i *v1alpha1.OAuthIntegration) int64 {
	id, _ := ids.Parse(i.Labels[v1alpha1.LabelID])
	return id
}

// integrations returns the integrations of the account, from the cache.
func (a *api) integrations(ctx context.Context) ([]*v1alpha1.OAuthIntegration, error) {
	list := &v1alpha1.OAuthIntegrationList{}
	if err := a.Kube.List(ctx, list, client.InNamespace(rest.ScopeFrom(ctx).Namespace())); err != nil {
		return nil, err
	}
	return oauthintegration.Items(list), nil
}

// findIntegration returns the integration with a number.
func (a *api) findIntegration(ctx context.Context, id string) (*v1alpha1.OAuthIntegration, error) {
	all, err := a.integrations(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(i *v1alpha1.OAuthIntegration) bool { return i.Labels[v1alpha1.LabelID] == id })
	if at < 0 {
		return nil, rest.NotFound("id: OAuth integration %q does not exist", rest.Clip(id))
	}
	return all[at], nil
}

// ListIntegrationsOutput is all integrations of the account, of which there are few.
type ListIntegrationsOutput struct{ Body []OAuthIntegration }

func (a *api) listIntegrations(ctx context.Context, _ *struct{}) (*ListIntegrationsOutput, error) {
	all, err := a.integrations(ctx)
	if err != nil {
		return nil, err
	}
	out := &ListIntegrationsOutput{Body: []OAuthIntegration{}}
	for _, i := range all {
		if numberOfIntegration(i) > 0 {
			out.Body = append(out.Body, shownIntegration(ctx, i))
		}
	}
	slices.SortFunc(out.Body, func(x, y OAuthIntegration) int { return cmp.Compare(x.ID, y.ID) })
	return out, nil
}

// IntegrationInput has the path parameter of routes of one integration.
type IntegrationInput struct {
	ID string `path:"id" pattern:"^[0-9]{1,16}$" doc:"Number of the OAuth integration."`
}

// IntegrationOutput is an integration.
type IntegrationOutput struct{ Body OAuthIntegration }

func (a *api) getIntegration(ctx context.Context, in *IntegrationInput) (*IntegrationOutput, error) {
	found, err := a.findIntegration(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &IntegrationOutput{shownIntegration(ctx, found)}, nil
}

// IntegrationProperties are the properties of a creation and of a change, without the secret.
type IntegrationProperties struct {
	Name        rest.DisplayName           `json:"name" minLength:"1" maxLength:"128"`
	Type        string                     `json:"type" maxLength:"64" pattern:"^[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?$" patternDescription:"letters, digits, _ and -, from a letter or digit to a letter or digit" doc:"The system; data tokens have the access token of a person below this name." example:"databricks"`
	AuthURL     string                     `json:"authUrl" maxLength:"1024" pattern:"^https://[A-Za-z0-9][^#@ ]*$" patternDescription:"an https:// URL without credentials and fragment" doc:"The authorization endpoint." example:"https://login.example.com/authorize"`
	TokenURL    string                     `json:"tokenUrl" maxLength:"1024" pattern:"^https://[A-Za-z0-9][^#@ ]*$" patternDescription:"an https:// URL without credentials and fragment" doc:"The token endpoint." example:"https://login.example.com/token"`
	ClientID    string                     `json:"clientId" minLength:"1" maxLength:"512" pattern:"^[\\x20-\\x7E]+$" patternDescription:"printable ASCII" example:"quoin"`
	RedirectURI string                     `json:"redirectUri" maxLength:"512" pattern:"^https://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?/auth/integrations/callback(?:/[A-Za-z0-9_-]{1,64})?$" patternDescription:"https://<host of the account>/auth/integrations/callback, or one segment below it" doc:"The redirect URI that is registered at the provider." example:"https://demo.example.com/auth/integrations/callback"`
	Scopes      *[]string                  `json:"scopes,omitempty" maxItems:"64" doc:"Those of the provider when empty; a change keeps them when absent."`
	Config      map[string]json.RawMessage `json:"config,omitempty" doc:"revocationUrl, clientAuthentication (basic or post) and authorizationParameters have an effect; others are kept. A change keeps it when absent."`
}

// apply sets the properties of an integration.
func (p *IntegrationProperties) apply(spec *v1alpha1.OAuthIntegrationSpec) error {
	spec.DisplayName, spec.Type, spec.ClientID, spec.RedirectURL = string(p.Name), p.Type, p.ClientID, p.RedirectURI
	spec.AuthorizationURL, spec.TokenURL = v1alpha1.HTTPSEndpoint(p.AuthURL), v1alpha1.HTTPSEndpoint(p.TokenURL)
	if p.Scopes != nil {
		if err := checkScopes(*p.Scopes); err != nil {
			return err
		}
		spec.Scopes = *p.Scopes
	}
	if p.Config == nil {
		return nil
	}
	return setConfig(spec, p.Config)
}

// maxScope is the maximum length of a scope, as in the schema of the kind.
const maxScope = 256

// checkScopes returns an error for a scope that is malformed (RFC 6749, section 3.3) or given twice.
func checkScopes(scopes []string) error {
	for at, scope := range scopes {
		malformed := strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
		if malformed || scope == "" || len(scope) > maxScope {
			return rest.BadRequest("scopes[%d]: %q; allowed: 1 to %d printable ASCII characters without spaces, quotes and backslashes", at, rest.Clip(scope), maxScope)
		}
		if slices.Contains(scopes[:at], scope) {
			return rest.BadRequest("scopes[%d]: %q is given twice", at, scope)
		}
	}
	return nil
}

// checkIntegration returns an error if an integration could not be in effect.
func checkIntegration(ctx context.Context, i *v1alpha1.OAuthIntegration) error {
	if err := oauthintegration.Check(rest.ScopeFrom(ctx).Account, i); err != nil {
		text := strings.NewReplacer("redirectURL:", "redirectUri:", "authorizationURL:", "authUrl:", "tokenURL:", "tokenUrl:", "revocationURL:", "config.revocationUrl:")
		return rest.BadRequest("%s", text.Replace(err.Error()))
	}
	return nil
}

// CreateIntegrationInput is the body of a creation.
type CreateIntegrationInput struct {
	Body struct {
		IntegrationProperties
		ClientSecret string `json:"clientSecret" secret:"true" minLength:"1" maxLength:"4096" doc:"Stored in a Secret; never shown."`
	}
}

func (a *api) createIntegration(ctx context.Context, in *CreateIntegrationInput) (*IntegrationOutput, error) {
	all, err := a.integrations(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) >= oauthintegration.MaxPerAccount {
		return nil, rest.Conflict("the account has %d OAuth integrations; allowed: at most %d", len(all), oauthintegration.MaxPerAccount)
	}
	name := free(strings.ReplaceAll(strings.ToLower(in.Body.Type), "_", "-"), all, (*v1alpha1.OAuthIntegration).GetName)
	created := &v1alpha1.OAuthIntegration{ObjectMeta: metav1.ObjectMeta{Namespace: rest.ScopeFrom(ctx).Namespace(), Name: name}}
	created.Spec.ClientSecretRef = v1alpha1.SecretKeyReference{Name: secretOfIntegration(name), Key: clientSecretKey}
	if err := in.Body.apply(&created.Spec); err != nil {
		return nil, err
	}
	if err := checkIntegration(ctx, created); err != nil {
		return nil, err
	}
	w := a.Kube.Expect(created)
	defer w.Stop()
	if err := a.Kube.Create(ctx, created); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil, rest.Conflict("an OAuth integration of the type %q is being created; try again", in.Body.Type)
		}
		return nil, err
	}
	if err := a.createClientSecret(ctx, created, in.Body.ClientSecret); err != nil {
		a.discard(ctx, created)
		return nil, err
	}
	var current *v1alpha1.OAuthIntegration
	err = w.Until(ctx, edit.Timeout, func(o metav1.Object, _ bool) bool {
		current, _ = o.(*v1alpha1.OAuthIntegration)
		return current != nil && current.UID == created.UID && numberOfIntegration(current) > 0
	})
	if err != nil {
		return nil, err
	}
	recording.Identified(ctx, current)
	return &IntegrationOutput{shownIntegration(ctx, current)}, nil
}

// discardTimeout is the time that the deletion of an integration without Secret may take.
const discardTimeout = 5 * time.Second

// discard deletes an integration whose Secret could not be created. If that fails too, the integration is Stalled, and an
// administrator deletes it or sets the secret with a change.
func (a *api) discard(ctx context.Context, i *v1alpha1.OAuthIntegration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	if err := edit.Delete(ctx, a.Kube, i); err != nil {
		log.FromContext(ctx).Error(err, "Cannot delete an OAuth integration without a Secret", "namespace", i.Namespace, "oauthIntegration", i.Name)
	}
}

// randomLetters is the number of random letters in the name of a Secret.
const randomLetters = 8

// secretOfIntegration returns a name for the Secret of an integration that is created over REST. That of a deleted integration
// of the same name may not be deleted yet.
func secretOfIntegration(name string) string {
	return name + "-oauth-client-" + strings.ToLower(rand.Text()[:randomLetters])
}

// createClientSecret creates the Secret of an integration, which is deleted with it.
func (a *api) createClientSecret(ctx context.Context, i *v1alpha1.OAuthIntegration, value string) error {
	ref := i.Spec.ClientSecretRef
	err := a.Kube.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: ref.Name, Labels: map[string]string{engine.LabelManagedBy: engine.ManagedBy}, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: "OAuthIntegration", Name: i.Name, UID: i.UID, Controller: ptr.To(true)},
		}},
		Data: map[string][]byte{ref.Key: []byte(value)},
	})
	if apierrors.IsAlreadyExists(err) {
		return rest.Conflict("the Secret %q exists and is not that of this OAuth integration: an administrator deletes it", ref.Name)
	}
	return err
}

// clientSecret returns the Secret of an integration, nil if there is none; an error if it was not created over REST.
func (a *api) clientSecret(ctx context.Context, i *v1alpha1.OAuthIntegration) (*corev1.Secret, error) {
	ref := i.Spec.ClientSecretRef
	held := &corev1.Secret{}
	err := a.Kube.Live().Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: ref.Name}, held)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !metav1.IsControlledBy(held, i):
		return nil, rest.Conflict("clientSecret: it is in the key %q of the Secret %q, which was not created over REST: change it there", ref.Key, ref.Name)
	}
	return held, nil
}

// setClientSecret changes the client's secret of an integration; held is what clientSecret has returned.
func (a *api) setClientSecret(ctx context.Context, i *v1alpha1.OAuthIntegration, held *corev1.Secret, value string) error {
	if held == nil {
		return a.createClientSecret(ctx, i, value)
	}
	ref := i.Spec.ClientSecretRef
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": held.UID}, "data": map[string][]byte{ref.Key: []byte(value)}})
	if err != nil {
		return err
	}
	return a.Kube.Patch(ctx, held, client.RawPatch(types.MergePatchType, patch))
}

// UpdateIntegrationInput has the properties of a change.
type UpdateIntegrationInput struct {
	IntegrationInput
	Body *struct {
		IntegrationProperties
		ClientSecret rest.Nullable[string] `json:"clientSecret,omitempty" secret:"true" minLength:"1" maxLength:"4096" doc:"Kept when absent or null. Required if tokenUrl or config.revocationUrl moves to another host."`
	}
}

func (a *api) updateIntegration(ctx context.Context, in *UpdateIntegrationInput) (*IntegrationOutput, error) {
	found, err := a.findIntegration(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Body == nil {
		return &IntegrationOutput{shownIntegration(ctx, found)}, nil
	}
	value := ptr.Deref(in.Body.ClientSecret.Value, "")
	changed, err := edit.Change(ctx, a.Kube, found, func(edited *v1alpha1.OAuthIntegration) error {
		live := edited.DeepCopy()
		if err := in.Body.apply(&edited.Spec); err != nil {
			return err
		}
		if err := checkIntegration(ctx, edited); err != nil {
			return err
		}
		// The request changes nothing if the Secret is not to be changed; the owner of a changed field has precedence.
		if _, err := fieldowner.CheckChange(live, edited); err != nil {
			return err
		}
		if value == "" {
			return checkHosts(&live.Spec, &edited.Spec)
		}
		held, err := a.clientSecret(ctx, edited)
		if err != nil {
			return err
		}
		// Before the endpoints: another host must not get the previous secret.
		return a.setClientSecret(ctx, edited, held, value)
	})
	if err != nil {
		return nil, err
	}
	return &IntegrationOutput{shownIntegration(ctx, changed)}, nil
}

// checkHosts returns an error if a change that keeps the client's secret would send it to another host: the secret is not shown to
// callers who may manage integrations, so they must not get it in this way either.
func checkHosts(before, after *v1alpha1.OAuthIntegrationSpec) error {
	known := []string{oauthintegration.HostOf(before.TokenURL), oauthintegration.HostOf(before.RevocationURL)}
	for _, e := range []struct {
		property string
		endpoint v1alpha1.HTTPSEndpoint
	}{{"tokenUrl", after.TokenURL}, {"config." + revocationProperty, after.RevocationURL}} {
		if host := oauthintegration.HostOf(e.endpoint); e.endpoint != "" && !slices.Contains(known, host) {
			return rest.BadRequest("%s: %q is another host, which would get the client's secret: send clientSecret too", e.property, rest.Clip(host))
		}
	}
	return nil
}

func (a *api) deleteIntegration(ctx context.Context, in *IntegrationInput) (*rest.SuccessOutput, error) {
	found, err := a.findIntegration(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	live := &v1alpha1.OAuthIntegration{} // the cache has no owners of fields
	if err := a.Kube.Live().Get(ctx, client.ObjectKeyFromObject(found), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, edit.ErrDeleted
		}
		return nil, err
	}
	if owner := fieldowner.OfSpec(live); owner != "" {
		return nil, rest.Conflict("OAuth integration %q is applied by %q, which would create it again: delete it at its source, such as Git", in.ID, owner)
	}
	if err := edit.Delete(ctx, a.Kube, live); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}
