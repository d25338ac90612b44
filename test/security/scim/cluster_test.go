//go:build !memory

package scim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// Regression tests for known vulnerabilities of SCIM servers that require a cluster.

// objectsOf returns all objects of a kind as JSON.
func objectsOf(t *testing.T, group schema.GroupVersion, kind string) []byte {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(group.WithKind(kind + "List"))
	if err := scimtest.Kubernetes.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// passwordIsNowhere checks that objects and logs do not contain a password.
func passwordIsNowhere(t *testing.T, id, secret string) {
	t.Helper()
	users := objectsOf(t, v1alpha1.GroupVersion, "ScimUser")
	if !bytes.Contains(users, []byte(id)) {
		t.Fatalf("the user is not among the objects")
	}
	if bytes.Contains(users, []byte(secret)) {
		t.Error("the password is stored")
	}
	for _, p := range scimtest.Processes() {
		if bytes.Contains(p.Log(), []byte(secret)) {
			t.Errorf("%s: the password is logged", filepath.Base(p.LogFile))
		}
	}
}

// accessOf creates a key of a person and returns a check of the status of its requests, on both replicas.
func accessOf(t *testing.T, id string) func(status int) {
	t.Helper()
	key, token, err := clustertest.Key(acme.Name, "person-"+scimtest.RunID(), v1alpha1.ApiKeySpec{
		Owner: &v1alpha1.ApiKeyOwner{ScimUser: id}, Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead},
	})
	if err == nil {
		err = scimtest.Kubernetes.Create(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scimtest.Kubernetes.Delete(context.WithoutCancel(t.Context()), key) })
	return func(status int) {
		t.Helper()
		for replica := range scimtest.Replicas {
			if err := apiclient.Eventually(func() error {
				if got := acme.WithToken(token).OnReplica(replica).Call(t, "GET", "/Me", nil); got.Status != status {
					return fmt.Errorf("replica %d: %s, want %d", replica, got, status)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Cure53 on Passbolt, Bitwarden CVE-2026-43640: disclosed tokens. Neither logs nor objects contain valid or
// invalid tokens.
func TestCure53Passbolt_TokensAreNowhere(t *testing.T) {
	wrong := unknownKey(t)
	id := acme.WithToken(acme.RFC).CreateUser(t, "token-"+scimtest.RunID())
	for _, token := range []string{acme.RFC, acme.Okta, acme.Entra, acme.Auto, acme.Reader, acme.Scoped, globex.RFC, wrong} {
		for _, authorization := range []string{"Bearer " + token, "Api-Key " + token, token, "Basic " + token} {
			caller := acme.WithAuthorization(authorization)
			caller.Call(t, "GET", "/Users/"+id, nil)
			caller.Call(t, "GET", "/Users?access_token="+token, nil)
			caller.Call(t, "PATCH", "/Users/"+id, `{`)
		}
	}
	keys := objectsOf(t, v1alpha1.GroupVersion, "ApiKey")
	for _, token := range []string{acme.RFC, acme.Okta, acme.Entra, acme.Auto, acme.Reader, acme.Scoped, globex.RFC, wrong} {
		if bytes.Contains(keys, []byte(token)) {
			t.Error("a token is stored in plain text")
		}
		for _, p := range scimtest.Processes() {
			log := p.Log()
			if len(log) == 0 {
				t.Fatalf("%s is empty", p.LogFile)
			}
			if bytes.Contains(log, []byte(token)) || bytes.Contains(log, []byte(token[len(token)-20:])) {
				t.Errorf("%s: a token is logged", filepath.Base(p.LogFile))
			}
		}
	}
	if !bytes.Contains(scimtest.APIServers[0].Log(), []byte("/Users/"+id)) {
		t.Error("the log does not contain the request")
	}
}

// TestExpiredAndDoubledCredentials checks expired keys and duplicate Authorization headers.
func TestExpiredAndDoubledCredentials(t *testing.T) {
	past := metav1.NewTime(time.Now().Add(-time.Hour))
	key, token, err := clustertest.Key(acme.Name, "expired", v1alpha1.ApiKeySpec{
		ScimProfile: "RFC", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}, ExpirationTime: &past,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := scimtest.Kubernetes.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scimtest.Kubernetes.Delete(t.Context(), key) })
	for _, path := range []string{"/Users", "/Me", "/Nothing"} {
		got := acme.WithToken(token).Call(t, "GET", path, nil)
		got.WantError(401, "", "expired")
		if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("WWW-Authenticate is %q", got.Header.Get("WWW-Authenticate"))
		}
	}
	raw(t, "GET /api/scim/v2/Users HTTP/1.1\r\nHost: "+acme.Host+"\r\nConnection: close\r\nAuthorization: Bearer "+acme.RFC+"\r\nAuthorization: Bearer "+acme.RFC+"\r\n\r\n").WantError(401, "")
	// An invalid credential is rejected on public routes too.
	acme.WithAuthorization("non-token").Call(t, "GET", "/ServiceProviderConfig", nil).WantError(401, "")
}

// TestHostsOfTenants checks that unknown hosts are not served and that locations use the configured host.
func TestHostsOfTenants(t *testing.T) {
	id := acme.WithToken(acme.RFC).CreateUser(t, "hosts-"+scimtest.RunID())
	get := func(host string) *scimtest.Response {
		return raw(t, "GET /api/scim/v2/Users/"+id+" HTTP/1.1\r\nHost: "+host+"\r\nX-Forwarded-Host: "+acme.Host+"\r\nConnection: close\r\nAuthorization: Bearer "+acme.RFC+"\r\n\r\n")
	}
	for _, host := range []string{"evil.test", "", "127.0.0.1", acme.Host + ".evil.test", "evil." + acme.Host, "acme"} {
		if got := get(host); got.Status != 404 && got.Status != 400 {
			t.Errorf("host %q: %d %s", host, got.Status, got.Raw)
		}
	}
	for _, host := range []string{strings.ToUpper(acme.Host), acme.Host + ":8443"} {
		get(host).WantStatus(200).Want("meta.location", acme.BaseURL()+"/Users/"+id)
	}
	get(globex.Host).WantError(401, "")
}

// TestRatesAreLimited checks the rate limit of each caller, also within a bulk request.
func TestRatesAreLimited(t *testing.T) {
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	limited := scimtest.Cluster.APIServer(filepath.Join(t.TempDir(), "limited.log"), address)
	limited.Args = append(limited.Args, "--requests-per-second", "1", "--burst", "5")
	t.Cleanup(limited.Kill)
	if err := limited.Start(); err != nil {
		t.Fatal(err)
	}
	if err := apiclient.Eventually(func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	}); err != nil {
		t.Fatalf("%v: %s", err, limited.Log())
	}
	before := scimtest.Replicas[1]
	scimtest.Replicas[1] = address // the address of the client of the second replica
	idle(scimtest.Clients[1])
	t.Cleanup(func() { scimtest.Replicas[1] = before; idle(scimtest.Clients[1]) })
	caller := acme.WithToken(acme.RFC).OnReplica(1)
	var refused *scimtest.Response
	for range 20 {
		if got := caller.Call(t, "GET", "/Users?count=0", nil); got.Status != 200 {
			refused = got
			break
		}
	}
	if refused == nil {
		t.Fatal("20 concurrent requests are served at a rate limit of 1 a second")
	}
	refused.WantError(429, "")
	if wait, err := strconv.Atoi(refused.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 5 {
		t.Errorf("Retry-After is %q", refused.Header.Get("Retry-After"))
	}
	// Other callers are not affected, and the caller is served again after a while.
	acme.WithToken(acme.Okta).OnReplica(1).Call(t, "GET", "/Users?count=0", nil).WantStatus(200)
	time.Sleep(1500 * time.Millisecond)
	caller.Call(t, "GET", "/Users?count=0", nil).WantStatus(200)
	// Each operation of a bulk request counts.
	began := time.Now()
	bulk := `{"schemas":["` + scimtest.BulkURN + `"],"Operations":[` + strings.TrimSuffix(strings.Repeat(`{"method":"DELETE","path":"/Users/nobody"},`, 8), ",") + `]}`
	acme.WithToken(acme.Entra).OnReplica(1).Call(t, "POST", "/Bulk", bulk).WantStatus(200)
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("8 operations took %s at a rate of 1 a second and 5 at once", took)
	}
}

func idle(c *http.Client) { c.CloseIdleConnections() }

// authentik GHSA-9m7q-6qg6-888h: a client could join the administrators' group. SCIM groups with names of
// privileged Kubernetes groups grant nothing, and no RBAC object refers to SCIM users.
func TestPrivilegedGroupNamesGrantNothing(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	id := a.CreateUser(t, "powerless-"+run)
	for _, name := range []string{"system:masters", "system:authenticated", "kubeadm:cluster-admins", "Admin", "cluster-admin"} {
		created := a.Call(t, "POST", "/Groups", `{"displayName":"`+name+`","members":[{"value":"`+id+`"}]}`)
		if created.Status != 201 {
			created.WantError(400, "invalidValue")
			continue
		}
		location := "/Groups/" + created.Text("id")
		t.Cleanup(func() { a.Delete(t, location) })
	}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		bindings := objectsOf(t, schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}, kind)
		if bytes.Contains(bindings, []byte(id)) || bytes.Contains(bindings, []byte("powerless-"+run)) {
			t.Errorf("a %s refers to a SCIM user", kind)
		}
	}
	acme.WithToken(acme.Reader).Call(t, "GET", "/Groups", nil).WantError(403, "")
}

// TestValuesThatAreTooLong checks that values that Kubernetes rejects are 400 errors.
func TestValuesThatAreTooLong(t *testing.T) {
	a, run := acme.WithToken(acme.RFC), scimtest.RunID()
	id := a.CreateUser(t, "long-"+run)
	long := strings.Repeat("x", 9000)
	var emails []string
	for range 40 {
		emails = append(emails, `{"value":"`+scimtest.RunID()+`@x.test"}`)
	}
	for member, word := range map[string]string{
		`"userName":"` + long + `"`: "userName", `"title":"` + long + `"`: "title", `"name":{"givenName":"` + long + `"}`: "givenName", `"externalId":"` + long + `"`: "externalId",
		`"emails":[{"value":"` + long + `"}]`: "emails", `"emails":[` + strings.Join(emails, ",") + `]`: "emails", `"` + scimtest.EnterpriseURN + `":{"department":"` + long + `"}`: "department",
	} {
		body := `{` + member + `}`
		if !strings.HasPrefix(member, `"userName"`) {
			body = `{"userName":"long2-` + run + `",` + member + `}`
		}
		a.Call(t, "POST", "/Users", body).WantError(400, "invalidValue", word)
		a.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","value":{`+member+`}}`)).WantError(400, "invalidValue", word)
	}
	a.Call(t, "POST", "/Groups", `{"displayName":"`+long+`"}`).WantError(400, "invalidValue", "displayName")
	a.Call(t, "POST", "/Groups", `{"displayName":"Long `+run+`","members":[{"value":"`+long+`"}]}`).WantError(400, "invalidValue", "members")
	for _, id := range []string{strings.Repeat("x", 300), "UPPER", "a_b", "..", "a..b", "-a", "ä", "a b", "kube-system%2fx"} {
		if got := rawGet(t, "/api/scim/v2/Users/"+strings.ReplaceAll(strings.ReplaceAll(id, " ", "%20"), "ä", "%c3%a4"), "Bearer "+acme.RFC); got.Status != 404 {
			t.Errorf("id %q: %d %s", id, got.Status, got.Raw)
		}
	}
}
