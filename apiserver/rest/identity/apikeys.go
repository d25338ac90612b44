package identity

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/permission"
)

const keyPath = "/api/v1/api-keys/{apiKeyId}"

func (a *api) apiKeysFamily() rest.Family {
	return rest.Family{Tag: "API Keys", Description: "Credentials of programs. Only their hashes are stored.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, "/api/v1/api-keys", "listApiKeys", v1alpha1.PermissionAdmin, "List the API keys of the account", a.listKeys),
		rest.Handle(http.MethodPost, "/api/v1/api-keys", "createApiKey", v1alpha1.PermissionAdmin, "Create an API key; its token is shown only here", a.createKey),
		rest.Handle(http.MethodGet, keyPath, "getApiKey", v1alpha1.PermissionAdmin, "Get an API key, without its token", a.getKey),
		rest.Handle(http.MethodDelete, keyPath, "deleteApiKey", v1alpha1.PermissionAdmin, "Delete an API key: it is rejected from then on", a.deleteKey),
	}}
}

// APIKey is a key without its token.
type APIKey struct {
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	CreatedAt     time.Time  `json:"createdAt"`
	ExpiresAt     *time.Time `json:"expiresAt,omitempty" nullable:"true"`
	LastUsedAt    *time.Time `json:"lastUsedAt,omitempty" nullable:"true" doc:"To the hour."`
	Permissions   []string   `json:"permissions"`
	DeploymentIDs []string   `json:"deploymentIds,omitzero" doc:"Ids of the existing deployments to which the key is limited; all when absent, none when empty."`
	Revoked       bool       `json:"revoked"`
}

// ListKeysInput has the parameters of the list.
type ListKeysInput struct{ rest.CursorPage }

func (a *api) listKeys(ctx context.Context, in *ListKeysInput) (*rest.List[APIKey], error) {
	list := &v1alpha1.ApiKeyList{}
	if err := a.Kube.List(ctx, list, client.InNamespace(rest.ScopeFrom(ctx).Namespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	keys := make([]*v1alpha1.ApiKey, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			keys = append(keys, &list.Items[i])
		}
	}
	shown := make([]APIKey, len(keys))
	for i, k := range keys {
		var err error
		if shown[i], err = a.keyOf(ctx, k); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(shown, func(x, y APIKey) int { return cmp.Compare(x.ID, y.ID) })
	return rest.PaginateByCursor(ctx, in.CursorPage, shown, func(k APIKey) string { return k.ID })
}

func (a *api) keyOf(ctx context.Context, k *v1alpha1.ApiKey) (APIKey, error) {
	out := APIKey{
		ID: k.Name, Name: cmp.Or(k.Spec.DisplayName, k.Name), CreatedAt: k.CreationTimestamp.UTC(),
		Permissions: []string{}, Revoked: ptr.Deref(k.Spec.Revoked, false),
	}
	if k.Spec.ExpirationTime != nil {
		out.ExpiresAt = ptr.To(k.Spec.ExpirationTime.UTC())
	}
	if k.Status.LastUsedTime != nil {
		out.LastUsedAt = ptr.To(k.Status.LastUsedTime.UTC())
	}
	for _, permission := range k.Spec.Permissions {
		out.Permissions = append(out.Permissions, string(permission))
	}
	if len(out.Permissions) == 0 {
		out.Permissions = []string{string(v1alpha1.PermissionAdmin)}
	}
	if k.Spec.Deployments == nil {
		return out, nil
	}
	s := rest.ScopeFrom(ctx)
	all, err := a.Catalog.Deployments(s.Namespace(), s.Principal, v1alpha1.PermissionAdmin)
	if err != nil {
		return out, err
	}
	out.DeploymentIDs = []string{}
	for _, d := range all {
		id := d.Labels[v1alpha1.LabelID] // which a copy of the deployment may carry too
		if slices.ContainsFunc(k.Spec.Deployments, d.IsReferredToBy) && !slices.Contains(out.DeploymentIDs, id) {
			out.DeploymentIDs = append(out.DeploymentIDs, id)
		}
	}
	return out, nil
}

// CreateKeyInput is the body of a creation.
type CreateKeyInput struct {
	Body *struct {
		Name          *rest.DisplayName `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"128"`
		Permissions   []permission.Name `json:"permissions,omitempty" nullable:"true" minItems:"1" maxItems:"16" doc:"Admin when absent."`
		DeploymentIDs []string          `json:"deploymentIds,omitempty" nullable:"true" minItems:"1" maxItems:"256" doc:"Ids of the deployments to which the key is limited; all when absent."`
		ExpiresAt     *time.Time        `json:"expiresAt,omitempty" nullable:"true" doc:"Never when absent."`
	}
}

// APIKeyOutput is a key.
type APIKeyOutput struct{ Body APIKey }

// CreatedKeyOutput is a key and its token.
type CreatedKeyOutput struct {
	Body struct {
		APIKey
		Token string `json:"token" doc:"The credential. It is not stored and cannot be shown again."`
	}
}

func (a *api) createKey(ctx context.Context, in *CreateKeyInput) (*CreatedKeyOutput, error) {
	s := rest.ScopeFrom(ctx)
	token, err := apikey.New(a.Random)
	if err != nil {
		return nil, err
	}
	k := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace(), Name: "key-" + utilrand.String(10)}}
	k.Spec.Token = ptr.To(token.Hash())
	// A user's keys, and the keys made with them, end with the user.
	switch {
	case s.Principal.User != "":
		k.Spec.Owner = &v1alpha1.ApiKeyOwner{ScimUser: s.Principal.User, Issuer: s.Principal.Issuer, Groups: s.Principal.Groups}
		k.OwnerReferences = []metav1.OwnerReference{apikey.OwnedBy(s.Principal.User, types.UID(s.Principal.UserUID))}
	case s.Principal.Kind == auth.KindUser:
		return nil, rest.Forbidden("%s %q does not belong to a user of the account, with whom the key would end: create the user first", s.Principal.Kind, s.Principal.Name)
	}
	if body := in.Body; body != nil {
		k.Spec.DisplayName = string(ptr.Deref(body.Name, ""))
		for _, name := range body.Permissions {
			if p := v1alpha1.Permission(name); !slices.Contains(k.Spec.Permissions, p) {
				k.Spec.Permissions = append(k.Spec.Permissions, p)
			}
		}
		if body.ExpiresAt != nil {
			if !body.ExpiresAt.After(a.Now()) {
				return nil, rest.BadRequest("expiresAt: %s is not in the future", body.ExpiresAt.Format(time.RFC3339))
			}
			k.Spec.ExpirationTime = ptr.To(metav1.NewTime(*body.ExpiresAt))
		}
		for _, id := range body.DeploymentIDs {
			d, err := a.Catalog.Find(ctx, s.Namespace(), id)
			if err != nil {
				return nil, err
			}
			if d == nil {
				return nil, rest.BadRequest("deploymentIds: deployment %q does not exist", rest.Clip(id))
			}
			if !slices.Contains(k.Spec.Deployments, id) { // not its name, which a later deployment may have
				k.Spec.Deployments = append(k.Spec.Deployments, id)
			}
		}
	}
	if err := edit.Create(ctx, a.Kube, k); err != nil {
		return nil, err
	}
	out := &CreatedKeyOutput{}
	if out.Body.APIKey, err = a.keyOf(ctx, k); err != nil {
		return nil, err
	}
	out.Body.Token = token.Reveal()
	return out, nil
}

// inKey has the path parameter of routes below a key.
type inKey struct {
	ID string `path:"apiKeyId" minLength:"1" maxLength:"253" doc:"id of the key."`
}

func (a *api) key(ctx context.Context, id string) (*v1alpha1.ApiKey, error) {
	k := &v1alpha1.ApiKey{}
	if len(validation.IsDNS1123Subdomain(id)) > 0 {
		return nil, rest.NotFound("API key %q does not exist", rest.Clip(id)) // no object can have this name
	}
	err := a.Kube.Live().Get(ctx, client.ObjectKey{Namespace: rest.ScopeFrom(ctx).Namespace(), Name: id}, k)
	if apierrors.IsNotFound(err) || err == nil && !k.DeletionTimestamp.IsZero() {
		return nil, rest.NotFound("API key %q does not exist", rest.Clip(id))
	}
	return k, err
}

func (a *api) getKey(ctx context.Context, in *inKey) (*APIKeyOutput, error) {
	k, err := a.key(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	shown, err := a.keyOf(ctx, k)
	return &APIKeyOutput{shown}, err
}

func (a *api) deleteKey(ctx context.Context, in *inKey) (*rest.SuccessOutput, error) {
	k, err := a.key(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if owner := fieldowner.OfSpec(k); owner != "" {
		return nil, rest.Conflict("API key %q is applied by %q, which would create it again: delete it at its source, such as Git", rest.Clip(in.ID), owner)
	}
	if err := edit.Delete(ctx, a.Kube, k); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}
