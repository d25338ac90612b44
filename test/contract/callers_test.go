package contract_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// identityProvider is an OIDC issuer with discovery and keys over HTTPS.
type identityProvider struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

// idp is the issuer that acme trusts, and globex does not.
var idp *identityProvider

func newIdentityProvider() (*identityProvider, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	p := &identityProvider{key: key}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		document := map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"ES256"}}
		if r.URL.Path == "/keys" {
			b64 := base64.RawURLEncoding.EncodeToString
			document = map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "kid": "1", "alg": "ES256", "use": "sig", "x": b64(public[1:33]), "y": b64(public[33:])}}}
		}
		_ = json.NewEncoder(w).Encode(document)
	}))
	return p, nil
}

// token returns an access token for a user in groups, with some claims changed.
func (p *identityProvider) token(t testing.TB, change jwt.MapClaims, groups ...string) string {
	t.Helper()
	claims := jwt.MapClaims{"iss": p.URL, "sub": "1", "aud": "quoin-acme", "email": "ada@acme.example.com", "exp": time.Now().Add(time.Hour).Unix(), "groups": groups}
	maps.Copy(claims, change)
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = "1"
	signed, err := token.SignedString(p.key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func (p *identityProvider) trusted() []v1alpha1.OIDCIssuer {
	return []v1alpha1.OIDCIssuer{{URL: p.URL, Audiences: []string{"quoin-acme"}, AdminGroups: []string{"platform"}}}
}

// Spec: "Authentication", point 3: OAuth access tokens are sent like API keys.
func TestAccessTokensAuthenticateUsers(t *testing.T) {
	admin, reader := acme.as(idp.token(t, nil, "platform")), acme.as(idp.token(t, nil, "sales"))
	admin.call(t, "GET", "/api/v1/users/me", nil).is(200).want("email", "ada@acme.example.com").want("isAdmin", true)
	admin.call(t, "GET", "/api/v1/api-keys", nil).is(200)
	reader.call(t, "GET", "/api/v1/deployments/"+acme.id, nil).is(200).want("name", "analytics")
	reader.call(t, "PUT", "/api/v1/deployments/"+acme.id, map[string]any{}).rejected(403, "DeploymentUpdate")
	for name, token := range map[string]string{
		"expired":        idp.token(t, jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}, "platform"),
		"no expiry":      idp.token(t, jwt.MapClaims{"exp": nil}, "platform"),
		"other audience": idp.token(t, jwt.MapClaims{"aud": "other"}, "platform"),
		"other issuer":   idp.token(t, jwt.MapClaims{"iss": "https://evil.example.com"}, "platform"),
		"other key":      idp.token(t, nil, "platform") + "x",
	} {
		t.Run(name, func(t *testing.T) { acme.as(token).call(t, "GET", "/api/v1/deployments", nil).rejected(401) })
	}
	t.Run("issuer not trusted by the account", func(t *testing.T) {
		globex.as(idp.token(t, nil, "platform")).call(t, "GET", "/api/v1/deployments", nil).rejected(401)
	})
}

// serviceAccountToken creates a ServiceAccount with verbs on the account's proxy, and returns a token.
func serviceAccountToken(t *testing.T, name string, audience string, verbs ...string) string {
	t.Helper()
	clientset := kubernetes.NewForConfigOrDie(kubeAdmin)
	ctx := context.WithoutCancel(t.Context())
	if _, err := clientset.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(verbs) > 0 {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"api.platform.quoin.dev"}, Resources: []string{"accounts/proxy"}, ResourceNames: []string{acme.name}, Verbs: verbs,
		}}}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		}
		if _, err := clientset.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := clientset.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// The authorizer watches roles.
		apiclient.Soon(t, func() error {
			return wantPermission(ctx, "system:serviceaccount:default:"+name, authorizationv1.ResourceAttributes{
				Group: "api.platform.quoin.dev", Resource: "accounts", Subresource: "proxy", Name: acme.name, Verb: verbs[0],
			}, true)
		})
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	token, err := clientset.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// RBAC authorizes ServiceAccounts.
func TestServiceAccountsAreAuthorizedByRBAC(t *testing.T) {
	reader := serviceAccountToken(t, "reader", "quoin", "get")
	editor := serviceAccountToken(t, "editor", "quoin", "get", "update")
	path := "/api/v1/deployments/" + acme.id
	acme.as(reader).call(t, "GET", path, nil).is(200)
	acme.as(reader).call(t, "PUT", path, map[string]any{}).rejected(403, "DeploymentUpdate")
	acme.as(editor).call(t, "PUT", path, map[string]any{}).is(200)
	acme.as(editor).call(t, "GET", "/api/v1/api-keys", nil).rejected(403, "Admin")
	acme.as(serviceAccountToken(t, "administrator", "quoin", "delete")).call(t, "GET", "/api/v1/api-keys", nil).is(200)
	// Spec: "Authentication", point 8: the credential is valid but not authorized for the target.
	unprivileged := serviceAccountToken(t, "unprivileged", "quoin")
	for name, who := range map[string]caller{"another account": globex.as(editor), "no permissions": acme.as(unprivileged)} {
		t.Run(name, func(t *testing.T) {
			who.call(t, "GET", "/api/v1/deployments", nil).rejected(403, "may not use account")
			a := who.call(t, "GET", "/api/scim/v2/Users", nil).is(403)
			if a.at("status") != "403" || !strings.Contains(fmt.Sprint(a.at("detail")), "may not use account") {
				t.Errorf("not a SCIM error: %s", a.raw)
			}
		})
	}
	t.Run("another audience", func(t *testing.T) {
		acme.as(serviceAccountToken(t, "elsewhere", "vault", "delete")).call(t, "GET", "/api/v1/deployments", nil).rejected(401)
	})
}

// No route of one account reaches objects of another one, and credentials of one account are invalid on the other.
func TestTenantsAreIsolated(t *testing.T) {
	foreign := create(t, globex, "Foreign")
	for i := 0; acme.as(acme.admin).call(t, "GET", "/api/v1/deployments/"+foreign, nil).status != 404 && i < 20; i++ {
		foreign = create(t, globex, fmt.Sprintf("Foreign %d", i)) // until acme has no deployment with this id
	}
	globexAdmin := globex.as(globex.admin)
	key, _ := globexAdmin.call(t, "POST", "/api/v1/api-keys", nil).is(200).at("id").(string)
	scopedHere, _ := acme.as(acme.admin).call(t, "POST", "/api/v1/api-keys", map[string]any{"deploymentIds": []string{acme.id}}).is(200).at("token").(string)
	scopedThere, _ := globexAdmin.call(t, "POST", "/api/v1/api-keys", map[string]any{"deploymentIds": []string{foreign}}).is(200).at("token").(string)
	// Callers of this account, and the statuses that they get for a deployment of the other one.
	callers := map[string]struct {
		token    string
		statuses []int
	}{
		"key": {acme.admin, []int{404}}, "access token": {idp.token(t, nil, "platform"), []int{404}},
		"scoped key": {scopedHere, []int{403, 404}}, "ServiceAccount": {serviceAccountToken(t, "isolated", "quoin", "delete"), []int{404}},
	}
	others := map[string]string{"key": globex.admin, "scoped key": scopedThere, "no credential": ""}
	before := snapshot(t, globex)
	for path, methods := range routes(t) {
		for _, method := range methods {
			filled := strings.NewReplacer("{deploymentId}", foreign, "{environmentId}", "1", "{apiKeyId}", key).Replace(path)
			t.Run(method+" "+path, func(t *testing.T) {
				for name, c := range callers {
					// An invalid body, so that routes without an id in the path create nothing.
					a := acme.as(c.token).call(t, method, filled, "[]")
					switch {
					case filled != path && !slices.Contains(c.statuses, a.status):
						t.Errorf("%s: %d %s", name, a.status, a.raw)
					case strings.Contains(string(a.raw), "globex") || strings.Contains(string(a.raw), "Foreign"):
						t.Errorf("%s: the response reveals the other account: %s", name, a.raw)
					}
				}
				for name, token := range others {
					if a := acme.as(token).call(t, method, filled, "{}"); a.status != 401 {
						t.Errorf("%s of the other account: %d %s", name, a.status, a.raw)
					}
				}
			})
		}
	}
	if after := snapshot(t, globex); after != before {
		t.Errorf("the other account has changed:\n%s\n%s", before, after)
	}
	globexAdmin.call(t, "DELETE", "/api/v1/api-keys/"+key, nil).is(200)
}

// A person without a ScimUser cannot create API keys: the keys would remain valid after the person is deactivated.
func TestPeopleWithoutAUserCreateNoKeys(t *testing.T) {
	stranger := acme.as(idp.token(t, jwt.MapClaims{"sub": "stranger", "email": "stranger@acme.example.com"}, "platform"))
	stranger.call(t, "GET", "/api/v1/api-keys", nil).is(200)
	stranger.call(t, "POST", "/api/v1/api-keys", map[string]any{"name": "Of a stranger"}).rejected(403, "stranger@acme.example.com")
}

// A key that a user makes ends with the user, and so does a key that is made with this key.
func TestKeysOfAUserEndWithTheUser(t *testing.T) {
	admin, userName := acme.as(acme.admin), "leaver@acme.example.com"
	user := fmt.Sprint(admin.call(t, "POST", "/api/scim/v2/Users", map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": userName,
	}).is(201).at("id"))
	owner := &v1alpha1.ScimUser{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: user}, owner); err != nil {
		t.Fatal(err)
	}
	token := idp.token(t, jwt.MapClaims{"sub": "leaver", "email": userName}, "platform")
	var keys []string
	for range 2 { // the second one with the first key
		a := acme.as(token).call(t, "POST", "/api/v1/api-keys", map[string]any{"name": "Of a user"}).is(200)
		id := fmt.Sprint(a.at("id"))
		t.Cleanup(func() { admin.call(t, "DELETE", "/api/v1/api-keys/"+id, nil).is(200) })
		k := &v1alpha1.ApiKey{}
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: id}, k); err != nil {
			t.Fatal(err)
		}
		if k.Spec.Owner == nil || k.Spec.Owner.ScimUser != user {
			t.Errorf("the owner is %v, want %s", k.Spec.Owner, user)
		}
		// The garbage collector of Kubernetes deletes the key after the user.
		if r := k.OwnerReferences; len(r) != 1 || r[0].Kind != "ScimUser" || r[0].Name != user || r[0].UID != owner.UID {
			t.Errorf("the owner references are %v, want one to the user", r)
		}
		token = fmt.Sprint(a.at("token"))
		acme.as(token).call(t, "GET", "/api/v1/users/me", nil).is(200)
		keys = append(keys, token)
	}
	admin.call(t, "PATCH", "/api/scim/v2/Users/"+user, map[string]any{
		"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"}, "Operations": []any{map[string]any{"op": "replace", "value": map[string]any{"active": false}}},
	}).is(200)
	for _, token := range keys {
		acme.as(token).call(t, "GET", "/api/v1/users/me", nil).rejected(401, "not active")
	}
	admin.call(t, "DELETE", "/api/scim/v2/Users/"+user, nil).is(204)
	for _, token := range keys {
		acme.as(token).call(t, "GET", "/api/v1/users/me", nil).rejected(401, "does not exist")
	}
	// Another person gets the name of the object before the keys are deleted.
	next := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: user}, Spec: v1alpha1.ScimUserSpec{UserName: "next-" + userName}}
	if err := k8s.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.call(t, "DELETE", "/api/scim/v2/Users/"+user, nil).is(204) })
	if err := apiclient.Eventually(func() error {
		if a := admin.call(t, "GET", "/api/scim/v2/Users/"+user, nil); a.status != 200 {
			return fmt.Errorf("%d: the user is not known yet", a.status)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, token := range keys {
		acme.as(token).call(t, "GET", "/api/v1/users/me", nil).rejected(401, "was deleted")
	}
}
