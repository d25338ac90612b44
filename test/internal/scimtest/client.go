// Package scimtest is the shared harness of the SCIM contract tests. By default two replicas of `quoin
// apiserver` serve over HTTPS, with a real kube-apiserver and `quoin controller`, as processes that tests may
// kill. With the build tag memory, the protocol runs in the test process with an in-memory store.
package scimtest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// URNs of schemas and messages.
const (
	UserURN       = "urn:ietf:params:scim:schemas:core:2.0:User"
	GroupURN      = "urn:ietf:params:scim:schemas:core:2.0:Group"
	EnterpriseURN = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	AttributesURN = "urn:cube:params:1.0:UserAttribute"
	PatchURN      = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
	ListURN       = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	ErrorURN      = "urn:ietf:params:scim:api:messages:2.0:Error"
	SearchURN     = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"
	BulkURN       = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
)

// Account is a tenant of the tests, with a token for each kind of client.
type Account struct {
	Name, Host string
	// RFC, Okta and Entra are tokens of keys with that profile, and Auto of an administrator's key without
	// a profile. Reader and Scoped may not provision.
	RFC, Okta, Entra, Auto, Reader, Scoped string

	strict strictClient
}

// Tenants. Acme declares a schema.
var (
	Acme     = &Account{Name: "acme", Host: "acme.example.com"}
	Globex   = &Account{Name: "globex", Host: "globex.example.com"}
	Accounts = []*Account{Acme, Globex}
)

// BaseURL returns the URL of the service, as in the locations of resources.
func (a *Account) BaseURL() string { return "https://" + a.Host + "/api/scim/v2" }

// Replicas are the addresses of the API servers.
var Replicas [2]string

// Clients are the HTTP clients of the replicas.
var Clients [2]*http.Client

// setRoots creates clients that trust a certificate authority.
func setRoots(pool *x509.CertPool) {
	for i := range Clients {
		transport := apiclient.Transport(pool, func() string { return Replicas[i] })
		transport.ForceAttemptHTTP2 = true
		Clients[i] = &http.Client{Timeout: apiclient.Timeout, Transport: transport}
	}
}

// Caller sends requests to a replica with an Authorization header.
type Caller struct {
	*Account
	authorization string
	replica       int
}

// WithToken returns a caller with a bearer token.
func (a *Account) WithToken(token string) Caller { return Caller{a, "Bearer " + token, 0} }

// WithAuthorization returns a caller with an Authorization header; "" for none.
func (a *Account) WithAuthorization(authorization string) Caller { return Caller{a, authorization, 0} }

// OnReplica returns the caller for another replica.
func (a Caller) OnReplica(replica int) Caller {
	a.replica = replica
	return a
}

// Response is the response to a request.
type Response struct {
	T       testing.TB
	Request string
	Status  int
	Header  http.Header
	Raw     []byte
}

// Call sends a request to a path below the base URL. body is a JSON string, a value to encode, or nil; header
// is a list of header names and values.
func (a Caller) Call(t testing.TB, method, path string, body any, header ...string) *Response {
	t.Helper()
	got, err := a.Try(t.Context(), method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	got.T = t
	return got
}

// Try is like Call, but returns transport errors.
func (a Caller) Try(ctx context.Context, method, path string, body any, header ...string) (*Response, error) {
	got, err := apiclient.Request{
		Method: method, URL: a.BaseURL() + path, Authorization: a.authorization, Body: body, MediaType: "application/scim+json", Header: header,
	}.Send(ctx, Clients[a.replica])
	if err != nil {
		return nil, err
	}
	if len(got.Body) > 0 {
		if err := a.checkStrictly(ctx, path, got.Body); err != nil {
			return nil, fmt.Errorf("a strict client rejects the response %d %s: %w", got.Status, Truncate(got.Body), err)
		}
	}
	return &Response{Request: method + " " + path, Status: got.Status, Header: got.Header, Raw: got.Body}, nil
}

// checkStrictly returns an error for a body that a strict client rejects.
func (a *Account) checkStrictly(ctx context.Context, path string, body []byte) error {
	if err := a.strict.load(ctx, a); err != nil {
		return err
	}
	_, query, _ := strings.Cut(path, "?")
	return a.strict.check(body, query)
}

// WantStatus checks the status, and the media type of a body.
func (a *Response) WantStatus(status int) *Response {
	a.T.Helper()
	if a.Status != status {
		a.T.Fatalf("%s: got %d, want %d: %s", a.Request, a.Status, status, a.Raw)
	}
	if media := a.Header.Get("Content-Type"); len(a.Raw) > 0 && media != "application/scim+json" {
		a.T.Errorf("%s: Content-Type is %q", a.Request, media)
	}
	return a
}

// WantHeader checks a header of the response.
func (a *Response) WantHeader(name, value string) *Response {
	a.T.Helper()
	if got := a.Header.Get(name); got != value {
		a.T.Errorf("%s: %s is %q, want %q", a.Request, name, got, value)
	}
	return a
}

// WantError checks that the response is a SCIM error with a status, a scimType ("" for none) and a detail that
// contains all words.
func (a *Response) WantError(status int, scimType string, words ...string) {
	a.T.Helper()
	a.WantStatus(status)
	a.Want("schemas.0", ErrorURN).Want("status", fmt.Sprint(status))
	if got, _ := a.Value("scimType").(string); got != scimType {
		a.T.Errorf("%s: scimType is %q, want %q: %s", a.Request, got, scimType, a.Raw)
	}
	detail, _ := a.Value("detail").(string)
	if detail == "" {
		a.T.Errorf("%s: no detail: %s", a.Request, a.Raw)
	}
	for _, word := range words {
		if !strings.Contains(detail, word) {
			a.T.Errorf("%s: the detail does not contain %q: %s", a.Request, word, detail)
		}
	}
}

// Value returns the value of a path in the body; nil if there is none. A path is names and indexes separated
// by dots, with URNs in brackets: "[urn:…].manager.value".
func (a *Response) Value(path string) any {
	a.T.Helper()
	var value any
	if err := json.Unmarshal(a.Raw, &value); err != nil {
		a.T.Fatalf("%s: not JSON: %s", a.Request, a.Raw)
	}
	value, _ = apiclient.Lookup(value, path)
	return value
}

// Text returns a string in the body; "" if there is none.
func (a *Response) Text(path string) string {
	a.T.Helper()
	s, _ := a.Value(path).(string)
	return s
}

// List returns a list of objects in the body; empty if there is none.
func (a *Response) List(path string) []map[string]any {
	a.T.Helper()
	items, _ := a.Value(path).([]any)
	all := make([]map[string]any, len(items))
	for i := range items {
		all[i], _ = items[i].(map[string]any)
	}
	return all
}

// Want checks a value in the body. Numbers are compared as float64; nil means no value.
func (a *Response) Want(path string, value any) *Response {
	a.T.Helper()
	if n, ok := value.(int); ok {
		value = float64(n)
	}
	if got := a.Value(path); got != value {
		a.T.Errorf("%s: %s is %v (%T), want %v: %s", a.Request, path, got, got, value, Truncate(a.Raw))
	}
	return a
}

// Truncate returns at most 2,000 bytes of a body.
func Truncate(raw []byte) []byte {
	if len(raw) > 2000 {
		return append(bytes.Clone(raw[:2000]), "…"...)
	}
	return raw
}

// CreateUser creates a user and returns its id. members are additional members of the body as JSON without
// braces. The user is deleted after the test.
func (a Caller) CreateUser(t testing.TB, userName string, members ...string) string {
	t.Helper()
	body := fmt.Sprintf(`{"schemas":[%q],"userName":%q`, UserURN, userName)
	for _, m := range members {
		body += "," + m
	}
	return a.Create(t, "/Users", body+"}")
}

// CreateGroup creates a group with members and returns its id. The group is deleted after the test.
func (a Caller) CreateGroup(t testing.TB, displayName string, members ...string) string {
	t.Helper()
	list := make([]map[string]string, len(members))
	for i, id := range members {
		list[i] = map[string]string{"value": id}
	}
	encoded, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return a.Create(t, "/Groups", fmt.Sprintf(`{"schemas":[%q],"displayName":%q,"members":%s}`, GroupURN, displayName, encoded))
}

// Create creates a resource that is deleted after the test, and returns its id.
func (a Caller) Create(t testing.TB, endpoint, body string) string {
	t.Helper()
	id := a.Call(t, "POST", endpoint, body).WantStatus(201).Text("id")
	t.Cleanup(func() {
		_, _ = a.Try(context.WithoutCancel(t.Context()), "DELETE", endpoint+"/"+id, nil)
	})
	return id
}

// PatchBody returns the body of a PATCH with operations.
func PatchBody(operations ...string) string {
	return fmt.Sprintf(`{"schemas":[%q],"Operations":[%s]}`, PatchURN, strings.Join(operations, ","))
}
