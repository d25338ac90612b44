package contract_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
)

// Spec: "Authentication", points 1 and 8.
func TestInvalidCredentialsAreRejected(t *testing.T) {
	unknown, err := apikey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mistyped := acme.admin[:len(acme.admin)-1] + "0"
	if mistyped == acme.admin {
		mistyped = acme.admin[:len(acme.admin)-1] + "1"
	}
	for name, c := range map[string]struct{ authorization, reason string }{
		"missing":              {"", ""},
		"no scheme":            {acme.admin, ""},
		"other scheme":         {"Basic " + acme.admin, ""},
		"empty":                {"Bearer ", ""},
		"malformed":            {"Bearer nonsense", ""},
		"wrong checksum":       {"Bearer " + mistyped, "its checksum is wrong"},
		"well-formed, unknown": {"Bearer " + unknown.Reveal(), "there is no such API key"},
		"of another account":   {"Bearer " + globex.admin, "there is no such API key"},
	} {
		t.Run(name, func(t *testing.T) {
			a := caller{acme.host, c.authorization}.call(t, "GET", "/api/v1/deployments", nil)
			a.rejected(401, c.reason)
			if c.authorization != "" && len(acme.admin) > 20 && strings.Contains(string(a.raw), acme.admin[9:21]) {
				t.Errorf("the error contains the credential: %s", a.raw)
			}
			if a.header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
}

// Authentication precedes routing, so no spelling of a path bypasses it.
func TestNoPathBypassesAuthentication(t *testing.T) {
	id := acme.id
	for _, path := range []string{
		"/api/v1/deployments", "/api/v1/deployments/", "//api/v1/deployments", "/api/v1//deployments", "/api/v1/./deployments",
		"/api/v1/x/../deployments", "/api/v1/%2e%2e/v1/deployments", "/api%2fv1%2fdeployments", "/API/v1/deployments", "/api/v1/deployments%2f" + id,
		"/docs/../api/v1/deployments", "/docs/%2e%2e/api/v1/deployments", "/docs%2f..%2fapi/v1/deployments", "/docs/", "/api/v1/spec", "/healthz", "/metrics",
		"/api/v1/deployments;x", "/api/v1/deployments%00", "/api/v1/deployments\\",
	} {
		a := caller{host: acme.host}.call(t, "GET", path, nil)
		if a.status == 200 && path != "/docs/" || a.status >= 300 && a.status < 400 || a.status >= 500 {
			t.Errorf("%s without a credential: %d", path, a.status)
		}
	}
	acme.as(acme.admin).call(t, "GET", "/API/v1/deployments", nil).rejected(404)
	acme.as(acme.admin).call(t, "GET", "/api/v1//deployments", nil).rejected(404)
}

func TestHostSelectsTheAccount(t *testing.T) {
	caller{"unknown.example.com", "Bearer " + acme.admin}.call(t, "GET", "/api/v1/deployments", nil, "X-Forwarded-Host", acme.host).rejected(404, "host")
	caller{globex.domain, "Bearer " + globex.admin}.call(t, "GET", "/api/v1/deployments", nil).is(200).want("items.0.deploymentUrl", "https://analytics.data.globex.example.com")
	caller{strings.ToUpper(globex.host) + ":8443", "Bearer " + globex.admin}.call(t, "GET", "/api/v1/deployments", nil).is(200)
}

// routes returns the methods by path of the served document.
func routes(t *testing.T) map[string][]string {
	t.Helper()
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage
	}
	a := acme.as(acme.admin).call(t, "GET", "/api/v1/spec", nil).is(200)
	if err := json.Unmarshal(a.raw, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	all := map[string][]string{}
	for path, methods := range doc.Paths {
		for method := range methods {
			all[path] = append(all[path], strings.ToUpper(method))
		}
	}
	return all
}

// snapshot returns the names and generations of the deployments of an account.
func snapshot(t *testing.T, a *account) string {
	t.Helper()
	list := &v1alpha1.DeploymentList{}
	if err := k8s.List(t.Context(), list, client.InNamespace(a.name)); err != nil {
		t.Fatal(err)
	}
	text := ""
	for i := range list.Items {
		text += fmt.Sprintf("%s %d; ", list.Items[i].Name, list.Items[i].Generation)
	}
	return text
}

func TestInvalidBodiesAreRejected(t *testing.T) {
	admin := acme.as(acme.admin)
	path := "/api/v1/deployments/" + acme.id
	before := object(t, acme, acme.id).Generation
	admin.call(t, "PUT", path, `{"name":`).rejected(400)
	admin.call(t, "PUT", path, `[]`).rejected(400)
	admin.call(t, "PUT", path, `{"name":"a","name":"b"}`).rejected(400, "name", "duplicate name")
	admin.call(t, "PUT", path, `{"templateVariables":{"replicas":1,"replicas":2}}`).rejected(400, "templateVariables.replicas", "duplicate name")
	admin.call(t, "PUT", path, `{} {}`).rejected(400)
	admin.call(t, "PUT", path, `{"Name":"a"}`).rejected(400, "Name")
	admin.call(t, "PUT", path, strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200)).rejected(400, "deep")
	admin.call(t, "PUT", path, `{}`, "Content-Type", "text/plain").rejected(415)
	admin.call(t, "PUT", path, `{}`, "Content-Type", "application/json; charset=utf-8").is(200)
	admin.call(t, "PUT", path, `{"name":"`+strings.Repeat("x", 10<<20)+`"}`).rejected(413)
	if after := object(t, acme, acme.id).Generation; after != before {
		t.Error("the spec has changed")
	}
}

func TestSecurityHeadersAreSet(t *testing.T) {
	a := acme.as(acme.admin).call(t, "GET", "/api/v1/regions", nil, "X-Request-Id", "abc-1").is(200)
	for name, want := range map[string]string{"X-Request-Id": "abc-1", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(a.header.Get("Strict-Transport-Security"), "max-age=") {
		t.Error("no Strict-Transport-Security")
	}
}

func TestReferencePageIsSelfContained(t *testing.T) {
	guide := caller{host: acme.host}.call(t, "GET", "/docs/ai", nil).is(200)
	if !strings.Contains(string(guide.raw), "stream-chat-state") || strings.Contains(string(guide.raw), acme.name+".") {
		t.Errorf("the guide: %.200s", guide.raw)
	}
	a := caller{host: acme.host}.call(t, "GET", "/docs", nil).is(200)
	if !strings.Contains(string(a.raw), "Update") && !strings.Contains(string(a.raw), "/api/v1/deployments/{deploymentId}") {
		t.Errorf("the page does not list the routes: %.200s", a.raw)
	}
	for _, bad := range []string{"http://", "src=", "<script", acme.name + "."} {
		if strings.Contains(string(a.raw), bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if a.header.Get("Content-Security-Policy") == "" || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("headers: %v", a.header)
	}
}

// Names that users see cannot hide, reorder or break the text around them, whichever API sets them.
func TestNamesHaveNoControlAndBidiCharacters(t *testing.T) {
	admin := acme.as(acme.admin)
	deployment := create(t, acme, "Names")
	for about, name := range map[string]string{
		"escape sequence": "\x1b[31mSales", "line end": "Sales\nMarketing", "right-to-left override": "Sales\u202Etxt.exe", "isolate": "\u2066Sales\u2069",
	} {
		t.Run(about, func(t *testing.T) {
			for path, body := range map[string]map[string]any{
				"POST /build/api/v1/deployments":        creation(name),
				"PUT /api/v1/deployments/" + deployment: {"name": name},
				"POST /api/v1/api-keys":                 {"name": name},
				"POST " + foldersOf(deployment):         {"name": name},
			} {
				method, path, _ := strings.Cut(path, " ")
				admin.call(t, method, path, body).rejected(400, "name", "bidirectional")
			}
			for path, body := range map[string]map[string]any{
				"/api/scim/v2/Users":  {"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": "names@acme.example", "displayName": name},
				"/api/scim/v2/Groups": {"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": name},
			} {
				admin.call(t, "POST", path, body).is(400).want("scimType", "invalidValue")
			}
		})
	}
}
