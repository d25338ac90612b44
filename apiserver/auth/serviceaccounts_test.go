package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/apitest"
)

// cluster is a client that answers reviews.
type cluster struct {
	status    authenticationv1.TokenReviewStatus
	verbs     []string
	fail      string // kind of review that fails
	tokens    int
	sar       authorizationv1.SubjectAccessReviewSpec
	audiences []string
}

var errCluster = errors.New("connection refused")

func (c *cluster) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	switch r := obj.(type) {
	case *authenticationv1.TokenReview:
		c.tokens++
		c.audiences = r.Spec.Audiences
		r.Status = c.status
		if c.fail == "token" {
			return errCluster
		}
	case *authorizationv1.SubjectAccessReview:
		c.sar = r.Spec
		r.Status.Allowed = slices.Contains(c.verbs, r.Spec.ResourceAttributes.Verb)
		if c.fail == "access" {
			return errCluster
		}
	}
	return nil
}

func loader() authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{"quoin"}, User: authenticationv1.UserInfo{
		Username: "system:serviceaccount:jobs:loader", UID: "7", Groups: []string{"system:serviceaccounts"},
		Extra: map[string]authenticationv1.ExtraValue{"x": {"y"}},
	}}
}

// foreign returns a token of an issuer that the account does not have, with the content of a ServiceAccount token and an
// invalid signature.
func foreign(id string) string {
	s := signer{alg: "RS256", kid: "1", sign: func([]byte) []byte { return []byte("x") }}
	return s.token(object{
		"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:jobs:loader", "aud": []string{"quoin"},
		"exp": now.Add(24 * time.Hour).Unix(), "jti": id,
	})
}

func TestServiceAccounts(t *testing.T) {
	status := func(change func(*authenticationv1.TokenReviewStatus)) authenticationv1.TokenReviewStatus {
		s := loader()
		change(&s)
		return s
	}
	cases := map[string]struct {
		status authenticationv1.TokenReviewStatus
		verbs  []string
		want   []v1alpha1.Permission
		err    error
		text   string
	}{
		"read":           {loader(), []string{"get"}, []v1alpha1.Permission{"DeploymentRead", "SchemaRead", "FolderRead", "WorkbookRead", "ReportRead"}, nil, ""},
		"update":         {loader(), []string{"get", "update"}, []v1alpha1.Permission{"DeploymentsManage", "DeploymentRead", "SchemaRead", "FolderRead", "FolderManage", "WorkbookRead", "WorkbookManage", "ReportRead", "ReportManage", "DeploymentAgentRead"}, nil, ""},
		"all":            {loader(), []string{"delete"}, []v1alpha1.Permission{"Admin"}, nil, ""},
		"nothing":        {loader(), []string{"create"}, nil, ErrForbidden, `system:serviceaccount:jobs:loader may not use account "acme"`},
		"not valid":      {status(func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false }), []string{"delete"}, nil, ErrNoCredential, "nor a valid ServiceAccount token"},
		"other audience": {status(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"api"} }), []string{"delete"}, nil, ErrNoCredential, `audience "quoin"`},
		"no audience":    {status(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil }), []string{"delete"}, nil, ErrNoCredential, `audience "quoin"`},
		"user":           {status(func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "ann" }), []string{"delete"}, nil, ErrNoCredential, "ServiceAccount"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &cluster{status: tc.status, verbs: tc.verbs}
			got, err := NewServiceAccounts(c, clocktesting.NewFakePassiveClock(now)).Authenticate(t.Context(), acme(), bearer(foreign("x")))
			if tc.want == nil {
				if got != nil || !errors.Is(err, tc.err) || errors.Is(err, ErrNoCredential) != errors.Is(tc.err, ErrNoCredential) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			want := &Principal{
				Kind: KindServiceAccount, Account: "acme", ID: "system:serviceaccount:jobs:loader",
				Name: "system:serviceaccount:jobs:loader", Grants: access.OnAll(tc.want...),
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			wantReview := authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:jobs:loader", UID: "7", Groups: []string{"system:serviceaccounts"},
				Extra: map[string]authorizationv1.ExtraValue{"x": {"y"}},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Group: "api.platform.quoin.dev", Resource: "accounts", Subresource: "proxy", Name: "acme",
					Verb: c.sar.ResourceAttributes.Verb,
				},
			}
			if diff := cmp.Diff(wantReview, c.sar); diff != "" || !slices.Equal(c.audiences, []string{"quoin"}) {
				t.Errorf("audiences %v; review (-want +got):\n%s", c.audiences, diff)
			}
		})
	}
}

func TestServiceAccountsIgnoreOtherCredentials(t *testing.T) {
	p := newProvider(t, es256("1"))
	a := NewServiceAccounts(&cluster{status: loader(), verbs: []string{"delete"}}, clocktesting.NewFakePassiveClock(now))
	for name, r := range map[string]string{"key": newToken(t).Reveal(), "token of an issuer of the account": es256("1").token(p.claims(nil))} {
		var other otherCredential
		if _, err := a.Authenticate(t.Context(), p.account(), bearer(r)); !errors.As(err, &other) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestServiceAccountsAreCached for ten seconds, by token and account. Errors are not cached.
func TestServiceAccountsAreCached(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	c := &cluster{status: loader(), verbs: []string{"get"}}
	a := NewServiceAccounts(c, clock)
	authenticate := func(account, sub string, reviews int, ok bool) {
		t.Helper()
		tenant := acme()
		tenant.Name = account
		p, err := a.Authenticate(t.Context(), tenant, bearer(foreign(sub)))
		if (err == nil) != ok || c.tokens != reviews || ok && p.Account != account {
			t.Errorf("%v, %v, %d reviews", p, err, c.tokens)
		}
	}
	authenticate("acme", "x", 1, true)
	c.verbs = nil
	authenticate("acme", "x", 1, true)
	authenticate("other", "x", 2, false)
	authenticate("other", "x", 2, false)
	authenticate("acme", "y", 3, false)
	clock.SetTime(now.Add(reviewedFor))
	authenticate("acme", "x", 4, false)
	c.verbs = []string{"get"}
	clock.SetTime(now.Add(2 * reviewedFor))
	for i, fail := range []string{"token", "access"} {
		c.fail = fail
		if _, err := a.Authenticate(t.Context(), acme(), bearer(foreign("x"))); !errors.Is(err, errCluster) || errors.Is(err, ErrNoCredential) || c.tokens != 5+i {
			t.Errorf("%s: %v", fail, err)
		}
	}
	c.fail = ""
	authenticate("acme", "x", 7, true)
}

func TestTokenReviewsAreLimited(t *testing.T) {
	c := &cluster{}
	a := NewServiceAccounts(c, clocktesting.NewFakePassiveClock(now))
	busy := 0
	for i := range 200 {
		if _, err := a.Authenticate(t.Context(), acme(), bearer(foreign(fmt.Sprint(i)))); errors.Is(err, ErrBusy) {
			busy++
		}
	}
	if busy < 100 || c.tokens > 100 {
		t.Errorf("%d reviews", c.tokens)
	}
}

// tokenOf returns a token of a ServiceAccount, which it creates if necessary.
func tokenOf(t *testing.T, api client.Client, namespace, name, audience string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	_ = api.Create(t.Context(), sa)
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if err := api.SubResource("token").Create(t.Context(), sa, r); err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// bind grants a ServiceAccount verbs on the proxy of acme.
func bind(t *testing.T, api client.Client, namespace, sa string, verbs ...string) {
	t.Helper()
	for _, obj := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace + sa}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"api.platform.quoin.dev"}, Resources: []string{"accounts/proxy"}, ResourceNames: []string{"acme"}, Verbs: verbs,
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + sa},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace + sa},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: sa}},
		},
	} {
		if err := api.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// It uses the tokens and RBAC of a real kube-apiserver.
func TestServiceAccountsOfAClusterAreAuthorizedByRBAC(t *testing.T) {
	api, namespace := apitest.Direct(t)
	bind(t, api, namespace, "reader", "get")
	bind(t, api, namespace, "writer", "get", "update")
	bind(t, api, namespace, "admin", "delete")
	other := acme()
	other.Name = "other"
	cases := map[string]struct {
		sa, audience string
		account      *v1alpha1.Account
		want         v1alpha1.Permission // the highest one
	}{
		"reader":         {"reader", "quoin", acme(), "DeploymentRead"},
		"writer":         {"writer", "quoin", acme(), "DeploymentsManage"},
		"admin":          {"admin", "quoin", acme(), "Admin"},
		"other account":  {"admin", "quoin", other, ""},
		"unbound":        {"unbound", "quoin", acme(), ""},
		"other audience": {"admin", "https://kubernetes.default.svc", acme(), ""},
	}
	for name, tc := range cases {
		// kube-apiserver caches RBAC.
		var p *Principal
		var err error
		for range 50 {
			p, err = NewServiceAccounts(api, clocktesting.NewFakePassiveClock(now)).Authenticate(t.Context(), tc.account, bearer(tokenOf(t, api, namespace, tc.sa, tc.audience)))
			if err == nil || tc.want == "" {
				break
			}
		}
		if tc.want == "" {
			want := ErrForbidden
			if tc.audience != Audience {
				want = ErrNoCredential
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, %v", name, p, err)
			}
			continue
		}
		if err != nil || p.Grants[0].Permissions[0] != tc.want || p.ID != "system:serviceaccount:"+namespace+":"+tc.sa {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	_, err := NewServiceAccounts(api, clocktesting.NewFakePassiveClock(now)).Authenticate(t.Context(), acme(), bearer(foreign("x")))
	if !errors.Is(err, ErrNoCredential) {
		t.Errorf("unsigned token: %v", err)
	}
}
