package scim_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
)

// service is a Server with an in-memory store.
type service struct {
	*scim.Server
	tenant *scim.Tenant
	caller scim.Caller
}

func newService() *service {
	return &service{
		Server: scim.NewServer(time.Now, nil),
		tenant: &scim.Tenant{
			Name: "acme", BaseURL: "https://acme.example.com" + scim.BasePath,
			Types: []*schema.ResourceType{schema.User, schema.Group}, Store: &scimtest.Memory{},
		},
		caller: scim.Caller{Manages: true},
	}
}

// do sends a request and decodes the response.
func (s *service) do(t testing.TB, method, path, body string, header ...string) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, scim.BasePath+path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r, s.tenant, s.caller)
	var answer map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, w.Body)
		}
	}
	return w, answer
}

func TestUserLifecycle(t *testing.T) {
	s := newService()
	created, user := s.do(t, "POST", "/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"ada@example.com","name":{"givenName":"Ada"},"active":true,"password":"x"}`)
	if created.Code != http.StatusCreated || user["userName"] != "ada@example.com" || user["password"] != nil {
		t.Fatalf("%d %v", created.Code, user)
	}
	id, _ := user["id"].(string)
	if location := created.Header().Get("Location"); location != s.tenant.BaseURL+"/Users/"+id {
		t.Errorf("Location is %q", location)
	}
	if r, answer := s.do(t, "POST", "/Users", `{"userName":"ADA@example.com"}`); r.Code != http.StatusConflict || answer["scimType"] != "uniqueness" {
		t.Errorf("%d %v", r.Code, answer)
	}
	if r, answer := s.do(t, "GET", `/Users?filter=userName+eq+"ADA@EXAMPLE.COM"`, ""); answer["totalResults"] != 1.0 {
		t.Errorf("%d %v", r.Code, answer)
	}
	r, answer := s.do(t, "PATCH", "/Users/"+id, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","value":{"active":false}}]}`)
	if r.Code != http.StatusOK || answer["active"] != false {
		t.Errorf("%d %v", r.Code, answer)
	}
	if r, _ := s.do(t, "DELETE", "/Users/"+id, ""); r.Code != http.StatusNoContent {
		t.Errorf("%d", r.Code)
	}
	if r, answer := s.do(t, "GET", "/Users/"+id, ""); r.Code != http.StatusNotFound || answer["status"] != "404" {
		t.Errorf("%d %v", r.Code, answer)
	}
}

// statuses returns the statuses of the operations of a bulk request.
func statuses(answer map[string]any) string {
	operations, _ := answer["Operations"].([]any)
	var all []string
	for _, item := range operations {
		o, _ := item.(map[string]any)
		status, _ := o["status"].(string)
		all = append(all, status)
	}
	return strings.Join(all, " ")
}

func TestBulkCircularReferences(t *testing.T) {
	s := newService()
	r, answer := s.do(t, "POST", "/Bulk", `{"schemas":["urn:ietf:params:scim:api:messages:2.0:BulkRequest"],"Operations":[
		{"method":"POST","path":"/Groups","bulkId":"a","data":{"displayName":"A","members":[{"value":"bulkId:b","type":"Group"}]}},
		{"method":"POST","path":"/Groups","bulkId":"b","data":{"displayName":"B","members":[{"value":"bulkId:a","type":"Group"},{"value":"bulkId:u"}]}},
		{"method":"POST","path":"/Users","bulkId":"u","data":{"userName":"u"}},
		{"method":"PATCH","path":"/Users/bulkId:u","data":{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"add","path":"title","value":"T"}]}},
		{"method":"POST","path":"/Users","bulkId":"v","data":{"userName":"v","urn:ietf:params:scim:schemas:extension:enterprise:2.0:User":{"manager":{"value":"bulkId:missing"}}}}
	]}`)
	if got := statuses(answer); r.Code != http.StatusOK || got != "201 201 201 200 409" {
		t.Fatalf("%d %s %v", r.Code, got, answer)
	}
	_, groups := s.do(t, "GET", `/Groups?filter=displayName+eq+"A"`, "")
	if a, err := json.Marshal(groups["Resources"]); err != nil || !strings.Contains(string(a), `"members"`) {
		t.Errorf("A has no members: %s %v", a, err)
	}
	_, users := s.do(t, "GET", `/Users?filter=title+eq+"t"`, "")
	if users["totalResults"] != 1.0 {
		t.Errorf("%v", users)
	}
}

// A creation in a cycle is not a success if failOnErrors ends the request before its references are added.
func TestBulkStopsInACycle(t *testing.T) {
	s := newService()
	r, answer := s.do(t, "POST", "/Bulk", `{"schemas":["urn:ietf:params:scim:api:messages:2.0:BulkRequest"],"failOnErrors":1,"Operations":[
		{"method":"POST","path":"/Groups","bulkId":"a","data":{"displayName":"A","members":[{"value":"bulkId:b","type":"Group"}]}},
		{"method":"POST","path":"/Groups","bulkId":"b","data":{"members":[{"value":"bulkId:a","type":"Group"}]}}
	]}`)
	if got := statuses(answer); r.Code != http.StatusOK || got != "409 400" {
		t.Fatalf("%d %s %v", r.Code, got, answer)
	}
}
