// Package people_test attacks the deprovisioning of people: someone who has left the company tries to keep the
// access that an identity provider has taken away over SCIM.
package people_test

import (
	"context"
	"crypto/rand"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// company is an account whose people sign in with keys and OIDC tokens, on a real kube-apiserver.
type company struct {
	*testing.T
	api       client.WithWatch
	namespace string
	account   *v1alpha1.Account
	issuer    *issuer
	replica
}

// replica is what one process of `quoin apiserver` uses.
type replica struct {
	scim *directory.Tenant
	keys auth.Authenticator
	oidc auth.Authenticator
}

func newCompany(t *testing.T) *company {
	t.Helper()
	api, namespace := apitest.Direct(t)
	c := &company{T: t, api: api, namespace: namespace, issuer: newIssuer(t)}
	c.account = &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.AccountSpec{
		Namespace: namespace, OIDCIssuers: []v1alpha1.OIDCIssuer{{URL: c.issuer.URL, Audiences: []string{"quoin"}}},
	}}
	c.replica = c.start()
	return c
}

func (c *company) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// start starts a replica with empty caches.
func (c *company) start() replica {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	c.Cleanup(cancel)
	objects, err := cache.New(apitest.Server(c.T), cache.Options{Scheme: apitest.Scheme(c.T), ByObject: directory.CacheOptions()})
	c.must(err)
	c.must(objects.IndexField(ctx, &v1alpha1.ApiKey{}, auth.IndexTokenID, auth.TokenIDs))
	go func() { _ = objects.Start(ctx) }()
	informer := func(of client.Object) toolscache.SharedIndexInformer {
		i, err := objects.GetInformer(ctx, of)
		c.must(err)
		return i.(toolscache.SharedIndexInformer)
	}
	d, err := directory.New(ctx, directory.Options{
		Users: informer(&v1alpha1.ScimUser{}), Groups: informer(&v1alpha1.ScimGroup{}), Chunks: informer(&v1alpha1.ScimMemberChunk{}),
		Attributes: informer(&v1alpha1.UserAttribute{}),
		Kube:       kube.NewClient(c.api, c.api, edit.Manager), Clock: clock.RealClock{},
	})
	c.must(err)
	informer(&v1alpha1.ApiKey{})
	roles, err := access.NewRoles(informer(&v1alpha1.AccountRole{}), informer(&v1alpha1.Deployment{}), nil)
	c.must(err)
	active := auth.NewActiveUsers(d, roles, c.api, clock.RealClock{})
	return replica{
		scim: d.Of(c.account),
		keys: auth.NewKeys(objects, c.api, active, clock.RealClock{}, nil),
		oidc: auth.NewOIDC(active, clock.RealClock{}, c.issuer.Client()),
	}
}

// apply applies a manifest with server-side apply, taking over conflicting fields, as Argo CD and Flux do.
func (c *company) apply(manager, kind, name string, spec map[string]any) {
	c.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name, "namespace": c.namespace}, "spec": spec,
	}}
	c.must(c.api.Apply(c.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership))
}

// key creates an API key of a user and returns its token.
func (c *company) key(user string) string {
	c.Helper()
	token, err := apikey.New(rand.Reader)
	c.must(err)
	hash := token.Hash()
	c.must(c.api.Create(c.Context(), &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: user + "-key"}, Spec: v1alpha1.ApiKeySpec{
		Owner: &v1alpha1.ApiKeyOwner{ScimUser: user}, Token: &hash,
	}}))
	return token.Reveal()
}

// setActive sets the attribute active over SCIM, like an identity provider.
func (c *company) setActive(id string, active bool) {
	c.Helper()
	_, err := c.scim.ReplaceResource(c.Context(), c.scim.ResourceTypes()[0], id, func(u *schema.Resource) (schema.Document, error) {
		u.Document["active"] = active
		return u.Document, nil
	})
	c.must(err)
}

// wantAccess waits until a credential is accepted, or rejected as invalid.
func (c *company) wantAccess(what string, a auth.Authenticator, token string, want bool) {
	c.Helper()
	c.must(apiclient.Eventually(func() error { return tryAccess(c.Context(), what, a, c.account, token, want) }))
}
