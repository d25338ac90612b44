//go:build !memory

package scim_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
	"github.com/quoin-dev/quoin/test/contract/internal/clustertest"
)

// What went wrong elsewhere, as far as only a cluster and processes can show it (shared/domain/scim.md
// section 6).

// objectsOf are all objects of a kind, as JSON, whatever fields they have.
func objectsOf(t *testing.T, group schema.GroupVersion, kind string) []byte {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(group.WithKind(kind + "List"))
	if err := k8s.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// passwordIsNowhere looks at what is kept, and at the logs.
func passwordIsNowhere(t *testing.T, id, secret string) {
	t.Helper()
	users := objectsOf(t, v1alpha1.GroupVersion, "ScimUser")
	if !bytes.Contains(users, []byte(id)) {
		t.Fatalf("the user is not among the objects")
	}
	if bytes.Contains(users, []byte(secret)) {
		t.Error("the password is kept")
	}
	for _, p := range processes() {
		if bytes.Contains(p.Logged(), []byte(secret)) {
			t.Errorf("%s: the password is logged", filepath.Base(p.LogFile))
		}
	}
}

// Cure53 on Passbolt, Bitwarden CVE-2026-43640: tokens that could be read. Ours are in no log and in
// no object, whether they are good or not.
func TestCure53Passbolt_TokensAreNowhere(t *testing.T) {
	wrong := "sk-quoin-" + strings.Repeat("1", 50)
	id := acme.as(acme.rfc).user(t, "token-"+runName())
	for _, token := range []string{acme.rfc, acme.okta, acme.entra, acme.auto, acme.reader, acme.scoped, globex.rfc, wrong} {
		for _, authorization := range []string{"Bearer " + token, "Api-Key " + token, token, "Basic " + token} {
			caller := as{acme, authorization, 0}
			caller.call(t, "GET", "/Users/"+id, nil)
			caller.call(t, "GET", "/Users?access_token="+token, nil)
			caller.call(t, "PATCH", "/Users/"+id, `{`)
		}
	}
	keys := objectsOf(t, v1alpha1.GroupVersion, "ApiKey")
	for _, token := range []string{acme.rfc, acme.okta, acme.entra, acme.auto, acme.reader, acme.scoped, globex.rfc, wrong} {
		if bytes.Contains(keys, []byte(token)) {
			t.Error("a token is kept as it is")
		}
		for _, p := range processes() {
			log := p.Logged()
			if len(log) == 0 {
				t.Fatalf("%s is empty", p.LogFile)
			}
			if bytes.Contains(log, []byte(token)) || bytes.Contains(log, []byte(token[len(token)-20:])) {
				t.Errorf("%s: a token is logged", filepath.Base(p.LogFile))
			}
		}
	}
	if !bytes.Contains(fronts[0].Logged(), []byte("/Users/"+id)) {
		t.Error("the log lacks what was asked: it was looked into too early, or is another one")
	}
}

// A key that has expired, and two headers of which two readers would take one each.
func TestExpiredAndDoubledCredentials(t *testing.T) {
	past := metav1.NewTime(time.Now().Add(-time.Hour))
	key, token, err := clustertest.Key(acme.name, "expired", v1alpha1.ApiKeySpec{
		ScimProfile: "RFC", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}, ExpirationTime: &past,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := k8s.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(t.Context(), key) })
	for _, path := range []string{"/Users", "/Me", "/Nothing"} {
		got := acme.as(token).call(t, "GET", path, nil)
		got.refused(401, "")
		if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("WWW-Authenticate is %q", got.header.Get("WWW-Authenticate"))
		}
	}
	raw(t, "GET /api/scim/v2/Users HTTP/1.1\r\nHost: "+acme.host+"\r\nConnection: close\r\nAuthorization: Bearer "+acme.rfc+"\r\nAuthorization: Bearer "+acme.rfc+"\r\n\r\n").refused(401, "")
	// Who shows a credential that is not good is refused where none is needed, too.
	as{acme, "non-token", 0}.call(t, "GET", "/ServiceProviderConfig", nil).refused(401, "")
}

// Host names that are nobody's are not served, and those in another spelling show the configured one.
func TestHostsOfTenants(t *testing.T) {
	id := acme.as(acme.rfc).user(t, "hosts-"+runName())
	get := func(host string) *answer {
		return raw(t, "GET /api/scim/v2/Users/"+id+" HTTP/1.1\r\nHost: "+host+"\r\nX-Forwarded-Host: "+acme.host+"\r\nConnection: close\r\nAuthorization: Bearer "+acme.rfc+"\r\n\r\n")
	}
	for _, host := range []string{"evil.test", "", "127.0.0.1", acme.host + ".evil.test", "evil." + acme.host, "acme"} {
		if got := get(host); got.status != 404 && got.status != 400 {
			t.Errorf("host %q: %d %s", host, got.status, got.raw)
		}
	}
	for _, host := range []string{strings.ToUpper(acme.host), acme.host + ":8443"} {
		get(host).is(200).want("meta.location", acme.base()+"/Users/"+id)
	}
	get(globex.host).refused(401, "")
}

// etcd as a victim: each caller has a rate, also within a bulk request.
func TestRatesAreLimited(t *testing.T) {
	address, err := clustertest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	limited := kubernetes.FrontEnd(filepath.Join(t.TempDir(), "limited.log"), address)
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
		t.Fatalf("%v: %s", err, limited.Logged())
	}
	before := replicas[1]
	replicas[1] = address // the client of the second replica dials what stands here
	idle(clients[1])
	t.Cleanup(func() { replicas[1] = before; idle(clients[1]) })
	caller := acme.as(acme.rfc).at(1)
	var refused *answer
	for range 20 {
		if got := caller.call(t, "GET", "/Users?count=0", nil); got.status != 200 {
			refused = got
			break
		}
	}
	if refused == nil {
		t.Fatal("20 requests at once are served at a rate of 1 a second")
	}
	refused.refused(429, "")
	if wait, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || wait < 1 || wait > 5 {
		t.Errorf("Retry-After is %q", refused.header.Get("Retry-After"))
	}
	// Another caller has a rate of its own, and the one that waits is served again.
	acme.as(acme.okta).at(1).call(t, "GET", "/Users?count=0", nil).is(200)
	time.Sleep(1500 * time.Millisecond)
	caller.call(t, "GET", "/Users?count=0", nil).is(200)
	// Each operation of a bulk counts: eight of them are not done in no time.
	began := time.Now()
	bulk := `{"schemas":["` + bulkURN + `"],"Operations":[` + strings.TrimSuffix(strings.Repeat(`{"method":"DELETE","path":"/Users/nobody"},`, 8), ",") + `]}`
	acme.as(acme.entra).at(1).call(t, "POST", "/Bulk", bulk).is(200)
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("8 operations took %s at a rate of 1 a second and 5 at once", took)
	}
}

func idle(c *http.Client) { c.CloseIdleConnections() }

// authentik GHSA-9m7q-6qg6-888h: a client could make itself a member of the administrators' group.
// Groups of names that Kubernetes gives power to have none here, and no object of RBAC names them.
func TestGroupsOfPowerfulNamesHaveNoPower(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	id := a.user(t, "powerless-"+run)
	for _, name := range []string{"system:masters", "system:authenticated", "kubeadm:cluster-admins", "Admin", "cluster-admin"} {
		created := a.call(t, "POST", "/Groups", `{"displayName":"`+name+`","members":[{"value":"`+id+`"}]}`)
		if created.status != 201 {
			created.refused(400, "invalidValue")
			continue
		}
		location := "/Groups/" + created.text("id")
		t.Cleanup(func() { a.tidy(t, location) })
	}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		bindings := objectsOf(t, schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}, kind)
		if bytes.Contains(bindings, []byte(id)) || bytes.Contains(bindings, []byte("powerless-"+run)) {
			t.Errorf("a %s names a user that SCIM has made", kind)
		}
	}
	acme.as(acme.reader).call(t, "GET", "/Groups", nil).refused(403, "")
}

// What Kubernetes would refuse is the client's fault, and told as such.
func TestValuesThatAreTooLong(t *testing.T) {
	a, run := acme.as(acme.rfc), runName()
	id := a.user(t, "long-"+run)
	long := strings.Repeat("x", 9000)
	var emails []string
	for range 40 {
		emails = append(emails, `{"value":"`+runName()+`@x.test"}`)
	}
	for member, word := range map[string]string{
		`"userName":"` + long + `"`: "userName", `"title":"` + long + `"`: "title", `"name":{"givenName":"` + long + `"}`: "givenName", `"externalId":"` + long + `"`: "externalId",
		`"emails":[{"value":"` + long + `"}]`: "emails", `"emails":[` + strings.Join(emails, ",") + `]`: "emails", `"` + enterpriseURN + `":{"department":"` + long + `"}`: "department",
	} {
		body := `{` + member + `}`
		if !strings.HasPrefix(member, `"userName"`) {
			body = `{"userName":"long2-` + run + `",` + member + `}`
		}
		a.call(t, "POST", "/Users", body).refused(400, "invalidValue", word)
		a.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","value":{`+member+`}}`)).refused(400, "invalidValue", word)
	}
	a.call(t, "POST", "/Groups", `{"displayName":"`+long+`"}`).refused(400, "invalidValue", "displayName")
	a.call(t, "POST", "/Groups", `{"displayName":"Long `+run+`","members":[{"value":"`+long+`"}]}`).refused(400, "invalidValue", "members")
	for _, id := range []string{strings.Repeat("x", 300), "UPPER", "a_b", "..", "a..b", "-a", "ä", "a b", "kube-system%2fx"} {
		if got := rawGet(t, "/api/scim/v2/Users/"+strings.ReplaceAll(strings.ReplaceAll(id, " ", "%20"), "ä", "%c3%a4"), "Bearer "+acme.rfc); got.status != 404 {
			t.Errorf("id %q: %d %s", id, got.status, got.raw)
		}
	}
}
