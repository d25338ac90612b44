package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/apitest"
)

var now = time.Date(2026, 1, 1, 12, 30, 0, 0, time.UTC)

func acme() *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1alpha1.AccountSpec{
		Namespace: "acme-ns", OIDCIssuers: []v1alpha1.OIDCIssuer{{URL: "https://idp.example.com", AdminGroups: []string{"admins"}}},
	}}
}

// etl returns an ApiKey of acme with a token.
func etl(token apikey.Token, change ...func(*v1alpha1.ApiKey)) *v1alpha1.ApiKey {
	k := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-ns", Name: "etl", CreationTimestamp: metav1.NewTime(now)}}
	k.Spec.Token = ptr.To(token.Hash())
	for _, f := range change {
		f(k)
	}
	return k
}

func ann(change ...func(*v1alpha1.ScimUser)) *v1alpha1.ScimUser {
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-ns", Name: "ann"}, Spec: v1alpha1.ScimUserSpec{UserName: "Ann@Example.com"}}
	for _, f := range change {
		f(u)
	}
	return u
}

// beingDeleted deletes a user whose object a finalizer keeps.
func beingDeleted(u *v1alpha1.ScimUser) {
	u.DeletionTimestamp, u.Finalizers = ptr.To(metav1.NewTime(now)), []string{"x.example.com/y"}
}

func anns(k *v1alpha1.ApiKey) { k.Spec.Owner = &v1alpha1.ApiKeyOwner{ScimUser: "ann"} }

// in makes ann the owner, who had groups at an issuer.
func in(issuer string, groups ...string) func(*v1alpha1.ApiKey) {
	return func(k *v1alpha1.ApiKey) {
		k.Spec.Owner = &v1alpha1.ApiKeyOwner{ScimUser: "ann", Issuer: issuer, Groups: groups}
	}
}

// indexed returns an in-memory client with objects and indexes.
func indexed(t *testing.T, objs ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(objs...).WithStatusSubresource(&v1alpha1.ApiKey{}).
		WithIndex(&v1alpha1.ApiKey{}, IndexTokenID, TokenIDs).
		WithIndex(&v1alpha1.ApiKey{}, "spec.token.id", func(o client.Object) []string {
			if token := o.(*v1alpha1.ApiKey).Spec.Token; token != nil {
				return []string{token.ID}
			}
			return nil
		}).
		WithIndex(&v1alpha1.ApiKey{}, "status.token.id", func(o client.Object) []string {
			if token := o.(*v1alpha1.ApiKey).Status.Token; token != nil {
				return []string{token.ID}
			}
			return nil
		}).
		WithIndex(&v1alpha1.Deployment{}, IndexGitHook, GitHookNumbers).
		WithIndex(&v1alpha1.Deployment{}, IndexDbtHook, DbtHookNumbers).Build()
}

func TestKeys(t *testing.T) {
	token := newToken(t)
	plain := &Principal{Kind: KindAPIKey, Account: "acme", ID: "etl", Name: "etl", Grants: access.OnAll("Admin")}
	with := func(change func(*Principal)) *Principal {
		p := *plain
		change(&p)
		return &p
	}
	// other has the same ID and another secret.
	other := func(k *v1alpha1.ApiKey) { k.Spec.Token.SHA256 = strings.Repeat("a", 64) }
	type objects = []client.Object
	cases := map[string]struct {
		objs objects
		want *Principal
		text string
	}{
		"valid": {objects{etl(token)}, plain, ""},
		"token of the controller": {objects{etl(token, func(k *v1alpha1.ApiKey) {
			k.Status.Token, k.Spec.Token = k.Spec.Token, nil
		})}, plain, ""},
		"with name and scope": {objects{etl(token, func(k *v1alpha1.ApiKey) {
			k.Spec.DisplayName, k.Spec.Deployments, k.Spec.Permissions = "Nightly load", []string{"sales"}, []v1alpha1.Permission{"SchemaRead"}
		})}, with(func(p *Principal) {
			p.Name, p.Grants = "Nightly load", access.On([]string{"sales"}, "SchemaRead")
		}), ""},
		"with SCIM profile": {objects{etl(token, func(k *v1alpha1.ApiKey) { k.Spec.ScimProfile = "Okta" })}, with(func(p *Principal) { p.ScimProfile = "Okta" }), ""},
		"two copies": {objects{etl(token), etl(token, func(k *v1alpha1.ApiKey) {
			k.Name, k.CreationTimestamp = "copy", metav1.NewTime(now.Add(time.Second))
		})}, plain, ""},
		"same ID, two secrets": {objects{etl(token), etl(token, other, func(k *v1alpha1.ApiKey) { k.Name = "a" })}, plain, ""},

		"unknown":       {nil, nil, "there is no such API key"},
		"other secret":  {objects{etl(token, other)}, nil, "there is no such API key"},
		"other account": {objects{etl(token, func(k *v1alpha1.ApiKey) { k.Namespace = "other-ns" })}, nil, "there is no such API key"},
		"spec overrides status": {objects{etl(token, func(k *v1alpha1.ApiKey) {
			k.Status.Token, k.Spec.Token = k.Spec.Token, &v1alpha1.ApiKeyToken{ID: "000000000000", SHA256: strings.Repeat("a", 64)}
		})}, nil, "there is no such API key"},
		"revoked":               {objects{etl(token, func(k *v1alpha1.ApiKey) { k.Spec.Revoked = ptr.To(true) })}, nil, "the API key has been revoked"},
		"expired":               {objects{etl(token, func(k *v1alpha1.ApiKey) { k.Spec.ExpirationTime = ptr.To(metav1.NewTime(now)) })}, nil, "the API key has expired"},
		"revoked, wrong secret": {objects{etl(token, other, func(k *v1alpha1.ApiKey) { k.Spec.Revoked = ptr.To(true) })}, nil, "there is no such API key"},
		"deleted": {objects{etl(token, func(k *v1alpha1.ApiKey) {
			k.DeletionTimestamp, k.Finalizers = ptr.To(metav1.NewTime(now)), []string{"x.example.com/y"}
		})}, nil, "the API key has been deleted"},
		"owner does not exist":     {objects{etl(token, anns)}, nil, `the user of the API key, "ann", does not exist`},
		"owner in other namespace": {objects{etl(token, anns), ann(func(u *v1alpha1.ScimUser) { u.Namespace = "other-ns" })}, nil, `"ann", does not exist`},
		"owner not active":         {objects{etl(token, anns), ann(func(u *v1alpha1.ScimUser) { u.Spec.Active = ptr.To(false) })}, nil, `"ann", is not active`},
		"owner being deleted":      {objects{etl(token, anns), ann(beingDeleted)}, nil, `"ann", is not active`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { requireAuthentication(t, token, tc.objs, tc.want, tc.text) })
	}
}

// TestKeysOfOwners: a key has the permissions that its owner has too.
func TestKeysOfOwners(t *testing.T) {
	token := newToken(t)
	with := func(change func(*Principal)) *Principal {
		p := &Principal{Kind: KindAPIKey, Account: "acme", ID: "etl", Name: "etl", Grants: access.OnAll("Admin")}
		change(p)
		return p
	}
	type objects = []client.Object
	cases := map[string]struct {
		objs objects
		want *Principal
		text string
	}{
		"owner": {objects{etl(token, anns), ann()}, with(func(p *Principal) {
			p.Email, p.User, p.Grants = "Ann@Example.com", "ann", access.OnAll("DeploymentRead", "SchemaRead")
		}), ""},
		"owner is an administrator": {objects{etl(token, anns), ann(func(u *v1alpha1.ScimUser) { u.Spec.Admin = ptr.To(true) })}, with(func(p *Principal) {
			p.Email, p.User, p.HasRole = "Ann@Example.com", "ann", true
		}), ""},
		"owner with a role": {objects{etl(token, anns), analyst(), ann(func(u *v1alpha1.ScimUser) {
			u.Spec.AccountRoles = []v1alpha1.AccountRoleReference{"analyst"}
		})}, with(func(p *Principal) {
			p.Email, p.User, p.HasRole, p.Grants = "Ann@Example.com", "ann", true, access.On([]string{"sales"}, "SchemaUpdate")
		}), ""},
		"less than the role of the owner": {objects{etl(token, anns, func(k *v1alpha1.ApiKey) {
			k.Spec.Permissions = []v1alpha1.Permission{"SchemaRead", "SecretsManage"}
		}), analyst(), ann(func(u *v1alpha1.ScimUser) {
			u.Spec.AccountRoles = []v1alpha1.AccountRoleReference{"analyst"}
		})}, with(func(p *Principal) {
			p.Email, p.User, p.HasRole, p.Grants = "Ann@Example.com", "ann", true, access.On([]string{"sales"}, "SchemaRead")
		}), ""},
		"owner in a group of administrators": {objects{etl(token, in("https://idp.example.com", "admins")), ann()}, with(func(p *Principal) {
			p.Email, p.User, p.HasRole, p.Issuer, p.Groups = "Ann@Example.com", "ann", true, "https://idp.example.com", []string{"admins"}
		}), ""},
		"owner in a group of no issuer of the account": {objects{etl(token, in("https://other.example.com", "admins")), ann()}, with(func(p *Principal) {
			p.Email, p.User, p.Issuer, p.Groups = "Ann@Example.com", "ann", "https://other.example.com", []string{"admins"}
			p.Grants = access.OnAll("DeploymentRead", "SchemaRead")
		}), ""},
		"owner with addresses": {objects{etl(token, anns), ann(func(u *v1alpha1.ScimUser) {
			u.Spec.Emails = []v1alpha1.ScimMultiValue{{Value: "a@example.com"}, {Value: "b@example.com", Primary: ptr.To(true)}}
		})}, with(func(p *Principal) {
			p.Email, p.User, p.Grants = "b@example.com", "ann", access.OnAll("DeploymentRead", "SchemaRead")
		}), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { requireAuthentication(t, token, tc.objs, tc.want, tc.text) })
	}
}

// analyst is a role on one deployment.
func analyst() *v1alpha1.AccountRole {
	return &v1alpha1.AccountRole{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme-ns", Name: "analyst"},
		Spec: v1alpha1.AccountRoleSpec{Name: "Analyst", Policies: []v1alpha1.AccountRolePolicy{{
			ResourceType: "Deployment", Actions: []v1alpha1.AccountRoleAction{"SchemaUpdate"}, Resources: []string{"sales"},
		}}},
	}
}

// rolesIn returns the roles among objects.
func rolesIn(t *testing.T, objs []client.Object) *access.Roles {
	t.Helper()
	informer := func(of client.Object) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, of, 0, toolscache.Indexers{})
	}
	roles := informer(&v1alpha1.AccountRole{})
	all, err := access.NewRoles(roles, informer(&v1alpha1.Deployment{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objs {
		if r, ok := o.(*v1alpha1.AccountRole); ok {
			if err := roles.GetIndexer().Add(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// requireAuthentication authenticates a request with a token, with the objects in the cache and only in the API server. It
// expects a principal, or an error that contains a message.
func requireAuthentication(t *testing.T, token apikey.Token, objs []client.Object, want *Principal, message string) {
	t.Helper()
	full, empty := indexed(t, objs...), indexed(t)
	users := NewActiveUsers(userList(objs), rolesIn(t, objs), full, clocktesting.NewFakePassiveClock(now))
	for where, keys := range map[string]*Keys{
		"in the cache":      NewKeys(full, empty, users, clocktesting.NewFakePassiveClock(now), nil),
		"in the API server": NewKeys(empty, full, users, clocktesting.NewFakePassiveClock(now), nil),
	} {
		got, err := keys.Authenticate(t.Context(), acme(), request("Bearer "+token.Reveal()))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", where, diff)
		}
		if (err == nil) != (message == "") || err != nil && (!errors.Is(err, ErrNoCredential) || !strings.Contains(err.Error(), message)) {
			t.Errorf("%s: %v", where, err)
		}
		if err != nil && strings.Contains(err.Error(), token.Reveal()[20:]) {
			t.Errorf("%s: the error contains the token", where)
		}
	}
}

func TestKeysIgnoreJWTs(t *testing.T) {
	var other otherCredential
	if _, err := NewKeys(nil, nil, nil, nil, nil).Authenticate(t.Context(), acme(), request("Bearer a.b.c")); !errors.As(err, &other) {
		t.Error(err)
	}
}

// counted counts the lists of a client, and returns fail for them unless it is nil.
func counted(c client.WithWatch, lists *int, fail error) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			*lists++
			if fail != nil {
				return fail
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// TestUnknownKeyLookupsAreLimited: the Kubernetes API server gets one list in ten seconds for each
// key, and a limited number for all.
func TestUnknownKeyLookupsAreLimited(t *testing.T) {
	lists := 0
	clock := clocktesting.NewFakePassiveClock(now)
	keys := NewKeys(indexed(t), counted(indexed(t), &lists, nil), nil, clock, nil)
	authenticate := func(token apikey.Token) error {
		_, err := keys.Authenticate(t.Context(), acme(), request("Bearer "+token.Reveal()))
		return err
	}
	for i, want := range []int{2, 2, 4} {
		if i == 2 {
			clock.SetTime(now.Add(unknownFor))
		}
		if err := authenticate(newToken(t)); !errors.Is(err, ErrNoCredential) || lists != want {
			t.Errorf("%v; %d lists, want %d", err, lists, want)
		}
	}
	busy := 0
	for range 500 {
		token, err := apikey.New(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		switch err := authenticate(token); {
		case errors.Is(err, ErrBusy) && !errors.Is(err, ErrNoCredential):
			busy++
		case !errors.Is(err, ErrNoCredential):
			t.Fatal(err)
		}
	}
	if busy < 400 {
		t.Errorf("%d of 500 were rejected as busy, %d lists", busy, lists)
	}
}

func TestKeysReturnReadErrors(t *testing.T) {
	token, broken, n := newToken(t), errors.New("connection refused"), 0
	clock := clocktesting.NewFakePassiveClock(now)
	noUsers := interceptor.NewClient(indexed(t, etl(token, anns)), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})
	for name, keys := range map[string]*Keys{
		"cache": NewKeys(counted(indexed(t), &n, broken), indexed(t), nil, clock, nil),
		"live":  NewKeys(indexed(t), counted(indexed(t), &n, broken), nil, clock, nil),
		"owner": NewKeys(noUsers, indexed(t), nil, clock, nil),
	} {
		for range 2 { // errors are not cached
			if _, err := keys.Authenticate(t.Context(), acme(), request("Bearer "+token.Reveal())); !errors.Is(err, broken) || errors.Is(err, ErrNoCredential) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestKeysOnAServer uses a real cache with indexes, and real field selectors without a cache.
func TestKeysOnAServer(t *testing.T) {
	api, namespace := apitest.Direct(t)
	account := acme()
	account.Spec.Namespace = namespace
	given := newToken(t)
	made, err := apikey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rest := etl(given)
	rest.Namespace, rest.Name = namespace, "rest"
	yaml := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "yaml"}}
	for _, k := range []*v1alpha1.ApiKey{rest, yaml} {
		if err := api.Create(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	yaml.Status.Token = ptr.To(made.Hash())
	if err := api.Status().Update(t.Context(), yaml); err != nil {
		t.Fatal(err)
	}
	cached, err := cache.New(apitest.Server(t), cache.Options{Scheme: apitest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := cached.IndexField(t.Context(), &v1alpha1.ApiKey{}, IndexTokenID, TokenIDs); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cached.Start(t.Context()) }()
	informer, err := cached.GetInformer(t.Context(), &v1alpha1.ApiKey{})
	if err != nil {
		t.Fatal(err)
	}
	byInformer, err := Cached(cached, informer.(toolscache.SharedIndexInformer))
	if err != nil {
		t.Fatal(err)
	}
	cached.WaitForCacheSync(t.Context())
	clock := clocktesting.NewFakePassiveClock(now)
	broken, n := errors.New("unexpected list"), 0
	elsewhere := acme()
	elsewhere.Spec.Namespace = "default"
	for where, keys := range map[string]*Keys{
		"in the cache":      NewKeys(cached, counted(indexed(t), &n, broken), nil, clock, nil),
		"in the informer":   NewKeys(byInformer, counted(indexed(t), &n, broken), nil, clock, nil),
		"in the API server": NewKeys(indexed(t), api, nil, clock, nil),
	} {
		for name, token := range map[string]apikey.Token{"rest": given, "yaml": made} {
			if p, err := keys.Authenticate(t.Context(), account, request("Api-Key "+token.Reveal())); err != nil || p.ID != name {
				t.Errorf("%s, %s: %v, %v", where, name, p, err)
			}
		}
	}
	if _, err := NewKeys(cached, api, nil, clock, nil).Authenticate(t.Context(), elsewhere, request("Api-Key "+given.Reveal())); !errors.Is(err, ErrNoCredential) {
		t.Errorf("in another account: %v", err)
	}
}
