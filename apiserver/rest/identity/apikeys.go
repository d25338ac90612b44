package identity

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/internal/apikey"
)

const keyPath = "/api/v1/api-keys/{apiKeyId}"

var apiKeys = family{"API Keys", "Credentials of programs. Only their hashes are kept.", []route{
	on(http.MethodGet, "/api/v1/api-keys", "listApiKeys", mayAdmin, "List the API keys of the account", (*API).listKeys),
	on(http.MethodPost, "/api/v1/api-keys", "createApiKey", mayAdmin, "Create an API key; its token is shown only here", (*API).createKey),
	on(http.MethodGet, keyPath, "getApiKey", mayAdmin, "Get an API key, without its token", (*API).getKey),
	on(http.MethodDelete, keyPath, "deleteApiKey", mayAdmin, "Delete an API key: it stops working at once", (*API).deleteKey),
}}

// APIKey is a key without its token.
type APIKey struct {
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	CreatedAt     time.Time  `json:"createdAt"`
	ExpiresAt     *time.Time `json:"expiresAt,omitempty" nullable:"true"`
	LastUsedAt    *time.Time `json:"lastUsedAt,omitempty" nullable:"true" doc:"To the hour."`
	Permissions   []string   `json:"permissions"`
	DeploymentIDs []string   `json:"deploymentIds,omitempty" doc:"Numbers of the deployments that the key is confined to; all when absent."`
	Revoked       bool       `json:"revoked"`
}

// ListKeysInput are the parameters of the list.
type ListKeysInput struct{ CursorPage }

func (a *API) listKeys(ctx context.Context, in *ListKeysInput) (*List[APIKey], error) {
	list := &v1alpha1.ApiKeyList{}
	if err := a.Kube.List(ctx, list, client.InNamespace(scopeOf(ctx).namespace()), client.UnsafeDisableDeepCopy); err != nil {
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
	return listOf(in.CursorPage, shown, func(k APIKey) string { return k.ID })
}

func (a *API) keyOf(ctx context.Context, k *v1alpha1.ApiKey) (APIKey, error) {
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
		out.Permissions = []string{string(mayAdmin)}
	}
	if k.Spec.Deployments == nil {
		return out, nil
	}
	all, err := a.deploymentsOf(ctx)
	if err != nil {
		return out, err
	}
	out.DeploymentIDs = []string{}
	for _, d := range all {
		if slices.Contains(k.Spec.Deployments, d.Name) {
			out.DeploymentIDs = append(out.DeploymentIDs, d.Labels[v1alpha1.LabelID])
		}
	}
	return out, nil
}

// CreateKeyInput is the body of a creation.
type CreateKeyInput struct {
	Body *struct {
		Name          *string    `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"128"`
		Permissions   []string   `json:"permissions,omitempty" nullable:"true" minItems:"1" maxItems:"16" enum:"Admin,AuditLogManage,DeploymentsManage,DeploymentCreate,DeploymentRead,DeploymentUpdate,DeploymentDelete,SecretsManage,SchemaRead,SchemaUpdate,SqlRunnerRead,ScimManage" doc:"Admin when absent."`
		DeploymentIDs []string   `json:"deploymentIds,omitempty" nullable:"true" minItems:"1" maxItems:"256" doc:"Numbers of the deployments that the key is confined to; all when absent."`
		ExpiresAt     *time.Time `json:"expiresAt,omitempty" nullable:"true" doc:"Never when absent."`
	}
}

// APIKeyOutput is a key.
type APIKeyOutput struct{ Body APIKey }

// CreatedKeyOutput is a key and, this once, its token.
type CreatedKeyOutput struct {
	Body struct {
		APIKey
		Token string `json:"token" doc:"The credential. It is not kept and cannot be shown again."`
	}
}

func (a *API) createKey(ctx context.Context, in *CreateKeyInput) (*CreatedKeyOutput, error) {
	s := scopeOf(ctx)
	token, err := apikey.New(a.Random)
	if err != nil {
		return nil, err
	}
	k := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), GenerateName: "key-"}}
	k.Spec.Token = ptr.To(token.Hash())
	if body := in.Body; body != nil {
		k.Spec.DisplayName = ptr.Deref(body.Name, "")
		for _, permission := range body.Permissions {
			if !slices.Contains(k.Spec.Permissions, v1alpha1.Permission(permission)) {
				k.Spec.Permissions = append(k.Spec.Permissions, v1alpha1.Permission(permission))
			}
		}
		if body.ExpiresAt != nil {
			if !body.ExpiresAt.After(a.Now()) {
				return nil, badRequest("expiresAt: %s is not in the future", body.ExpiresAt.Format(time.RFC3339))
			}
			k.Spec.ExpirationTime = ptr.To(metav1.NewTime(*body.ExpiresAt))
		}
		for _, id := range body.DeploymentIDs {
			d, err := a.deployment(ctx, id)
			if err != nil {
				return nil, badRequest("deploymentIds: deployment %q does not exist", clip(id))
			}
			if !slices.Contains(k.Spec.Deployments, d.Name) {
				k.Spec.Deployments = append(k.Spec.Deployments, d.Name)
			}
		}
	}
	if err := a.Kube.Create(ctx, k); err != nil {
		return nil, err
	}
	a.seen(ctx, k, true)
	out := &CreatedKeyOutput{}
	if out.Body.APIKey, err = a.keyOf(ctx, k); err != nil {
		return nil, err
	}
	out.Body.Token = token.Reveal()
	return out, nil
}

// inKey has the key's id in the path.
type inKey struct {
	ID string `path:"apiKeyId" minLength:"1" maxLength:"253" doc:"id of the key."`
}

func (a *API) key(ctx context.Context, id string) (*v1alpha1.ApiKey, error) {
	k := &v1alpha1.ApiKey{}
	if len(validation.IsDNS1123Subdomain(id)) > 0 {
		return nil, notFound("API key %q does not exist", clip(id)) // no object can have this name
	}
	err := a.Kube.Live().Get(ctx, client.ObjectKey{Namespace: scopeOf(ctx).namespace(), Name: id}, k)
	if apierrors.IsNotFound(err) || err == nil && !k.DeletionTimestamp.IsZero() {
		return nil, notFound("API key %q does not exist", clip(id))
	}
	return k, err
}

func (a *API) getKey(ctx context.Context, in *inKey) (*APIKeyOutput, error) {
	k, err := a.key(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	shown, err := a.keyOf(ctx, k)
	return &APIKeyOutput{shown}, err
}

func (a *API) deleteKey(ctx context.Context, in *inKey) (*SuccessOutput, error) {
	k, err := a.key(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if owner := edit.Owner(k); owner != "" {
		return nil, conflict("API key %q is applied by %q, which would make it again: delete it where it is written, such as in Git", clip(in.ID), owner)
	}
	if err := a.Kube.Delete(ctx, k, client.Preconditions{UID: &k.UID}); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	a.seen(ctx, k, false)
	return success(), nil
}
