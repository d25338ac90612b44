package auth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/content/deploytoken"
	"github.com/quoin-dev/quoin/internal/store"
)

// deployTokenID is the id of the token of the tests.
const deployTokenID = "deploy-ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// deployJWT returns a JWT with an id.
func deployJWT(t *testing.T, id, key string) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"jti": id, "deploymentId": "7", "url": "https://acme.example.com"}).SignedString([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// storedTokens are tokens by account UID and text. calls counts what is looked up.
type storedTokens struct {
	tokens map[string]*deploytoken.Token
	err    error
	calls  int
}

func (s *storedTokens) Find(_ context.Context, accountUID, text string) (*deploytoken.Token, error) {
	s.calls++
	if s.err != nil {
		return nil, s.err
	}
	if found := s.tokens[accountUID+" "+text]; found != nil {
		return found, nil
	}
	return nil, deploytoken.ErrUnknown
}

const exchangePath = "/v1/token"

// deployWorld returns an authenticator that knows a token of the deployment sales of acme.
func deployWorld(t *testing.T, text string, objs ...client.Object) (*DeployTokens, *storedTokens) {
	t.Helper()
	stored := &storedTokens{tokens: map[string]*deploytoken.Token{"acme-uid " + text: {
		ID: deployTokenID, Kind: deploytoken.Deploy, Deployment: store.Deployment{UID: "sales-uid", Namespace: "acme-ns", Name: "sales"}, CreatedBy: deploytoken.Creator{Principal: "ApiKey:etl"},
	}}}
	c, clk := indexed(t, objs...), clocktesting.NewFakePassiveClock(now)
	return NewDeployTokens(stored, NewActiveUsers(userList(objs), rolesIn(t, objs), c, clk), exchangePath, c, c, clk), stored
}

func account(name string) *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "acme-uid"}, Spec: v1alpha1.AccountSpec{Namespace: "acme-ns"}}
}

// deployRequest returns a request with Authorization headers.
func deployRequest(path, body string, authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://acme.example.com"+path, strings.NewReader(body))
	for _, value := range authorization {
		r.Header.Add("Authorization", value)
	}
	return r
}

// salesObject returns the Deployment sales with a UID.
func salesObject(uid types.UID) *v1alpha1.Deployment {
	return sales(func(d *v1alpha1.Deployment) { d.UID = uid })
}

func TestDeployTokens(t *testing.T) {
	text := deployJWT(t, deployTokenID, "key")
	want := &Principal{
		Kind: KindDeployToken, Account: "acme", ID: deployTokenID, Name: "deploy token of sales",
		Grants:  access.On([]string{"sales"}, "SchemaRead", "SchemaUpdate", "SecretsManage"),
		Creator: "ApiKey:etl", CreatorName: "etl",
	}
	for name, c := range map[string]struct {
		path, body    string
		authorization []string
		uid           types.UID
		rejection     string
	}{
		"without a scheme":                        {authorization: []string{text}},
		"as a bearer token":                       {authorization: []string{"Bearer " + text}},
		"in the body":                             {path: exchangePath, body: `{"token":"` + text + `"}`},
		"changed signature":                       {authorization: []string{deployJWT(t, deployTokenID, "guess")}, rejection: "no such deploy token"},
		"in the body, changed":                    {path: exchangePath, body: `{"token":"` + deployJWT(t, deployTokenID, "guess") + `"}`, rejection: "no such deploy token"},
		"in the body, no JSON":                    {path: exchangePath, body: text, rejection: "no such deploy token"},
		"a large body":                            {path: exchangePath, body: `{"token":"` + strings.Repeat("x", maxCredential) + `"}`, rejection: "no such deploy token"},
		"body of another path":                    {body: `{"token":"` + text + `"}`, rejection: "Authorization header must be"},
		"an API key":                              {authorization: []string{"Bearer sk-x"}, rejection: "Authorization header must be"},
		"another JWT":                             {authorization: []string{"Bearer " + deployJWT(t, "x", "key")}, rejection: "Authorization header must be"},
		"two headers":                             {authorization: []string{text, text}, rejection: "Authorization header must be"},
		"another object of the deployment's name": {authorization: []string{text}, uid: "recreated", rejection: "no such deploy token"},
	} {
		t.Run(name, func(t *testing.T) {
			uid := c.uid
			if uid == "" {
				uid = "sales-uid"
			}
			a, _ := deployWorld(t, text, salesObject(uid))
			path := c.path
			if path == "" {
				path = "/api/v1/deployments"
			}
			r := deployRequest(path, c.body, c.authorization...)
			p, err := a.Authenticate(t.Context(), account("acme"), r)
			if c.rejection != "" {
				if !errors.Is(err, ErrNoCredential) || !strings.Contains(err.Error(), c.rejection) || strings.Contains(err.Error(), text[len(text)-10:]) {
					t.Errorf("%v, want %q", err, c.rejection)
				}
				return
			}
			if diff := cmp.Diff(want, p); diff != "" || err != nil {
				t.Errorf("%v: %s", err, diff)
			}
			if body, _ := io.ReadAll(r.Body); string(body) != c.body {
				t.Errorf("the body is %q afterwards", body)
			}
		})
	}
}

func TestDeployTokensOfOtherAccounts(t *testing.T) {
	text := deployJWT(t, deployTokenID, "key")
	a, _ := deployWorld(t, text, salesObject("sales-uid"))
	other := account("globex")
	other.UID = "globex-uid"
	if p, err := a.Authenticate(t.Context(), other, deployRequest("/", "", text)); !errors.Is(err, ErrNoCredential) {
		t.Errorf("%+v, %v", p, err)
	}
	moved := account("acme")
	moved.Spec.Namespace = "other-ns"
	if p, err := a.Authenticate(t.Context(), moved, deployRequest("/", "", text)); !errors.Is(err, ErrNoCredential) {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestInventedDeployTokensCostFewReads: an attacker who invents tokens causes few reads of the database,
// and does not keep others from using theirs.
func TestInventedDeployTokensCostFewReads(t *testing.T) {
	text := deployJWT(t, deployTokenID, "key")
	a, stored := deployWorld(t, text, salesObject("sales-uid"))
	if _, err := a.Authenticate(t.Context(), account("acme"), deployRequest("/", "", text)); err != nil {
		t.Fatal(err)
	}
	invented, busy := deployJWT(t, deployTokenID, "guess"), 0
	for range 1000 {
		if _, err := a.Authenticate(t.Context(), account("acme"), deployRequest("/", "", invented)); errors.Is(err, ErrBusy) {
			busy++
		}
	}
	if stored.calls > 50 || busy < 950 {
		t.Errorf("%d reads, %d requests were rejected without one", stored.calls, busy)
	}
	if _, err := a.Authenticate(t.Context(), account("acme"), deployRequest("/", "", text)); err != nil {
		t.Errorf("the valid token: %v", err)
	}
}

func TestDeployTokensWithoutDatabase(t *testing.T) {
	text := deployJWT(t, deployTokenID, "key")
	a, stored := deployWorld(t, text, salesObject("sales-uid"))
	stored.err = store.ErrUnavailable
	if _, err := a.Authenticate(t.Context(), account("acme"), deployRequest("/", "", text)); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrNoCredential) {
		t.Error(err)
	}
}

// TestDeployTokensEndWithTheirCreator: a person who keeps a deploy token after leaving cannot use it, whether the
// token was created with an API key of that person or with an access token.
func TestDeployTokensEndWithTheirCreator(t *testing.T) {
	text := deployJWT(t, deployTokenID, "key")
	key, user, stranger := deploytoken.Creator{Principal: "ApiKey:etl", User: "ann"}, deploytoken.Creator{Principal: "User:u1", User: "ann", UserName: "ann@example.com"},
		deploytoken.Creator{Principal: "User:u1", UserName: "ann@example.com"}
	inactive := func(u *v1alpha1.ScimUser) { u.Spec.Active = ptr.To(false) }
	deprovisioned := func(u *v1alpha1.ScimUser) { u.Spec.DeprovisionTime = ptr.To(metav1.NewTime(now)) }
	left := []client.Object{leaver(t)}
	for name, c := range map[string]struct {
		by    deploytoken.Creator
		users []client.Object
		ok    bool
	}{
		"a program":                         {deploytoken.Creator{Principal: "ServiceAccount:ci"}, nil, true},
		"an active user":                    {user, []client.Object{ann()}, true},
		"the key of an active user":         {key, []client.Object{ann()}, true},
		"a deactivated user":                {user, []client.Object{ann(inactive)}, false},
		"a user deactivated over SCIM":      {user, []client.Object{ann(deprovisioned)}, false},
		"a user who is being deleted":       {user, []client.Object{ann(beingDeleted)}, false},
		"the key of a deactivated user":     {key, []client.Object{ann(inactive)}, false},
		"the key of a user who was deleted": {key, nil, false},
		"a user who was deleted":            {user, nil, false},
		"another user with the name of one who was deleted": {
			deploytoken.Creator{Principal: "User:u1", User: "ann", UserUID: "uid-1", UserName: "ann@example.com"}, []client.Object{ann(func(u *v1alpha1.ScimUser) { u.UID = "uid-2" })}, false,
		},
		"the same user": {
			deploytoken.Creator{Principal: "User:u1", User: "ann", UserUID: "uid-1", UserName: "ann@example.com"}, []client.Object{ann(func(u *v1alpha1.ScimUser) { u.UID = "uid-1" })}, true,
		},
		"a user of another account":             {user, []client.Object{ann(func(u *v1alpha1.ScimUser) { u.Namespace = "other-ns" })}, false},
		"a user without ScimUser":               {stranger, nil, true},
		"a user who was provisioned later":      {stranger, []client.Object{ann()}, true},
		"one provisioned later and deactivated": {stranger, []client.Object{ann(inactive)}, false},
		"one provisioned later and deleted":     {stranger, left, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, stored := deployWorld(t, text, append(c.users, salesObject("sales-uid"))...)
			stored.tokens["acme-uid "+text].CreatedBy = c.by
			p, err := a.Authenticate(t.Context(), account("acme"), deployRequest("/", "", text))
			if (err == nil) != c.ok || (p != nil) != c.ok || err != nil && (!errors.Is(err, ErrNoCredential) || !strings.Contains(err.Error(), "created the deploy token")) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// TestCreatorOfDeployTokens: live previews are those of the creator of a deploy token; a Git token has none.
func TestCreatorOfDeployTokens(t *testing.T) {
	text := deployJWT(t, deployTokenID, "key")
	for name, c := range map[string]struct {
		kind          deploytoken.Kind
		by            deploytoken.Creator
		creator, name string
	}{
		"a user":      {deploytoken.Deploy, deploytoken.Creator{Principal: "User:u1", UserName: "ann@example.com"}, "User:u1", "ann@example.com"},
		"a program":   {deploytoken.Deploy, deploytoken.Creator{Principal: "ServiceAccount:system:serviceaccount:a:ci"}, "ServiceAccount:system:serviceaccount:a:ci", "system:serviceaccount:a:ci"},
		"a Git token": {deploytoken.Git, deploytoken.Creator{Principal: "User:u1", UserName: "ann@example.com"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, stored := deployWorld(t, text, salesObject("sales-uid"))
			stored.tokens["acme-uid "+text].Kind, stored.tokens["acme-uid "+text].CreatedBy = c.kind, c.by
			p, err := a.Authenticate(t.Context(), account("acme"), deployRequest("/", "", text))
			if err != nil || p.Creator != c.creator || p.CreatorName != c.name {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// leaver returns the claim that is left of a user who was deleted over SCIM.
func leaver(t *testing.T) client.Object {
	t.Helper()
	c, list := indexed(t), &v1alpha1.ClaimList{}
	if err := claims.Deprovision(t.Context(), c, ann()); err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), list); err != nil || len(list.Items) != 1 {
		t.Fatal(err, len(list.Items))
	}
	claim := &list.Items[0]
	claim.ResourceVersion = ""
	return claim
}

// TestDeployTokensWithoutAPIServer: a creator that cannot be checked is a failure of the server.
func TestDeployTokensWithoutAPIServer(t *testing.T) {
	text := deployJWT(t, deployTokenID, "key")
	a, stored := deployWorld(t, text, salesObject("sales-uid"), ann())
	stored.tokens["acme-uid "+text].CreatedBy = deploytoken.Creator{Principal: "ApiKey:etl", User: "ann"}
	a.cached = interceptor.NewClient(indexed(t, salesObject("sales-uid"), ann()), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*v1alpha1.ScimUser); ok {
				return errors.New("down")
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	if p, err := a.Authenticate(t.Context(), account("acme"), deployRequest("/", "", text)); err == nil || errors.Is(err, ErrNoCredential) {
		t.Errorf("%+v, %v", p, err)
	}
}
