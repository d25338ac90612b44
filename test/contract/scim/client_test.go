package scim_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
)

// URNs of schemas and messages.
const (
	userURN       = "urn:ietf:params:scim:schemas:core:2.0:User"
	groupURN      = "urn:ietf:params:scim:schemas:core:2.0:Group"
	enterpriseURN = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	attributesURN = "urn:cube:params:1.0:UserAttribute"
	patchURN      = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
	listURN       = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	errorURN      = "urn:ietf:params:scim:api:messages:2.0:Error"
	searchURN     = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"
	bulkURN       = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
)

// account is a tenant of the tests, with a token for each kind of client.
type account struct {
	name, host string
	// rfc, okta and entra are tokens of keys for that profile, auto that of an administrator's key
	// without one; reader and scoped may not provision.
	rfc, okta, entra, auto, reader, scoped string
}

// The tenants. acme declares a schema of its own.
var (
	acme     = &account{name: "acme", host: "acme.example.com"}
	globex   = &account{name: "globex", host: "globex.example.com"}
	accounts = []*account{acme, globex}
)

// base is the address of an account's service, as its resources' locations show it.
func (a *account) base() string { return "https://" + a.host + "/api/scim/v2" }

// replicas are the addresses on which front ends listen.
var replicas [2]string

var clients [2]*http.Client

// setRoots makes clients that trust a certificate authority.
func setRoots(pool *x509.CertPool) {
	for i := range clients {
		transport := apiclient.Transport(pool, func() string { return replicas[i] })
		transport.ForceAttemptHTTP2 = true
		clients[i] = &http.Client{Timeout: apiclient.Patience, Transport: transport}
	}
}

// as is a caller: of an account, with a token, at a replica.
type as struct {
	*account
	authorization string
	replica       int
}

func (a *account) as(token string) as { return as{a, "Bearer " + token, 0} }

// at is the same caller at a replica.
func (a as) at(replica int) as {
	a.replica = replica
	return a
}

// answer is what came back.
type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	raw    []byte
}

// call sends a request to a path below the service's base. body is a string of JSON, any value to be
// encoded, or nil; header are names and values of headers.
func (a as) call(t testing.TB, method, path string, body any, header ...string) *answer {
	t.Helper()
	got, err := a.try(t.Context(), method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	got.t = t
	return got
}

// try is call for those who expect that the server may be gone.
func (a as) try(ctx context.Context, method, path string, body any, header ...string) (*answer, error) {
	got, err := apiclient.Request{
		Method: method, URL: a.base() + path, Authorization: a.authorization, Body: body, MediaType: "application/scim+json", Header: header,
	}.Send(ctx, clients[a.replica])
	if err != nil {
		return nil, err
	}
	return &answer{what: method + " " + path, status: got.Status, header: got.Header, raw: got.Body}, nil
}

// is checks the status; an answer with a body has SCIM's media type.
func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.raw)
	}
	if media := a.header.Get("Content-Type"); len(a.raw) > 0 && media != "application/scim+json" {
		a.t.Errorf("%s: Content-Type is %q", a.what, media)
	}
	return a
}

// refused checks that the answer is a SCIM error with a status, a scimType ("" for none) and a
// detail that has all the words.
func (a *answer) refused(status int, scimType string, words ...string) {
	a.t.Helper()
	a.is(status)
	a.want("schemas.0", errorURN).want("status", fmt.Sprint(status))
	if got, _ := a.at("scimType").(string); got != scimType {
		a.t.Errorf("%s: scimType is %q, want %q: %s", a.what, got, scimType, a.raw)
	}
	detail, _ := a.at("detail").(string)
	if detail == "" {
		a.t.Errorf("%s: no detail: %s", a.what, a.raw)
	}
	for _, word := range words {
		if !strings.Contains(detail, word) {
			a.t.Errorf("%s: the detail does not name %q: %s", a.what, word, detail)
		}
	}
}

// at is a value of the body: names and indexes separated by dots, a URN as a whole in brackets:
// "[urn:…].manager.value". It is nil where there is none.
func (a *answer) at(path string) any {
	a.t.Helper()
	var value any
	if err := json.Unmarshal(a.raw, &value); err != nil {
		a.t.Fatalf("%s: not JSON: %s", a.what, a.raw)
	}
	value, _ = apiclient.Lookup(value, path)
	return value
}

// text is a value of the body that is a string; "" where it is none.
func (a *answer) text(path string) string {
	a.t.Helper()
	s, _ := a.at(path).(string)
	return s
}

// list is a value of the body that is a list of objects; empty where there is none.
func (a *answer) list(path string) []map[string]any {
	a.t.Helper()
	items, _ := a.at(path).([]any)
	all := make([]map[string]any, len(items))
	for i := range items {
		all[i], _ = items[i].(map[string]any)
	}
	return all
}

// want checks a value of the body; numbers are compared as float64, nil is absence.
func (a *answer) want(path string, value any) *answer {
	a.t.Helper()
	if n, ok := value.(int); ok {
		value = float64(n)
	}
	if got := a.at(path); got != value {
		a.t.Errorf("%s: %s is %v (%T), want %v: %s", a.what, path, got, got, value, clip(a.raw))
	}
	return a
}

func clip(raw []byte) []byte {
	if len(raw) > 2000 {
		return append(bytes.Clone(raw[:2000]), "…"...)
	}
	return raw
}

// user creates one and returns its id; members are further members of the body, as JSON without
// braces. It is deleted with the test.
func (a as) user(t testing.TB, userName string, members ...string) string {
	t.Helper()
	body := fmt.Sprintf(`{"schemas":[%q],"userName":%q`, userURN, userName)
	for _, m := range members {
		body += "," + m
	}
	return a.created(t, "/Users", body+"}")
}

// group creates one of members by their ids, and returns its id. It is deleted with the test.
func (a as) group(t testing.TB, displayName string, members ...string) string {
	t.Helper()
	list := make([]map[string]string, len(members))
	for i, id := range members {
		list[i] = map[string]string{"value": id}
	}
	encoded, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return a.created(t, "/Groups", fmt.Sprintf(`{"schemas":[%q],"displayName":%q,"members":%s}`, groupURN, displayName, encoded))
}

func (a as) created(t testing.TB, endpoint, body string) string {
	t.Helper()
	id := a.call(t, "POST", endpoint, body).is(201).text("id")
	t.Cleanup(func() {
		_, _ = a.try(context.WithoutCancel(t.Context()), "DELETE", endpoint+"/"+id, nil)
	})
	return id
}

// patch is the body of a PATCH of operations, as JSON.
func patch(operations ...string) string {
	return fmt.Sprintf(`{"schemas":[%q],"Operations":[%s]}`, patchURN, strings.Join(operations, ","))
}
