package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/serving"
)

// things is a family of a test.
type thing struct {
	Name   string            `json:"name" minLength:"1" maxLength:"5"`
	Tags   []string          `json:"tags,omitempty" maxItems:"2"`
	Secret string            `json:"secret,omitempty" maxLength:"5" secret:"true"`
	Extra  map[string]string `json:"extra,omitempty" secret:"true"`
	Parts  []struct {
		Key   string `json:"key" secret:"true" maxLength:"5"`
		Count int    `json:"count"`
	} `json:"parts,omitempty"`
}

type thingInput struct {
	Code string `header:"X-Code" maxLength:"5" secret:"true"`
	Body thing
}

type thingOutput struct{ Body thing }

type listInput struct {
	CursorPage
	Sort Optional[string] `query:"sort" enum:"up,down"`
}

type fakeDeployments map[string]*v1alpha1.Deployment

func (f fakeDeployments) Find(_ context.Context, _, id string) (*v1alpha1.Deployment, error) {
	return f[id], nil
}

func (f fakeDeployments) FindCached(_ context.Context, _, id string) (*v1alpha1.Deployment, error) {
	return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "cached " + f[id].Name}}, nil
}

func newTestAPI(t *testing.T) *API {
	t.Helper()
	create := func(_ context.Context, in *thingInput) (*thingOutput, error) { return &thingOutput{in.Body}, nil }
	list := func(ctx context.Context, in *listInput) (*List[int], error) {
		return PaginateByCursor(ctx, in.CursorPage, []int{1, 2, 3}, identity)
	}
	get := func(ctx context.Context, _ *InDeployment) (*thingOutput, error) {
		return &thingOutput{thing{Name: ScopeFrom(ctx).Deployment.Name}}, nil
	}
	a, err := New(Options{Deployments: fakeDeployments{"1": {ObjectMeta: metav1.ObjectMeta{Name: "one"}}}}, Family{Tag: "Things", Routes: []Route{
		Handle(http.MethodPost, "/things", "createThing", NoPermission, "Create", create).WithStatus(http.StatusCreated),
		Handle(http.MethodGet, "/things", "listThings", NoPermission, "List", list),
		Handle(http.MethodGet, "/others", "listOthers", NoPermission, "List", list),
		Handle(http.MethodGet, "/deployments/{deploymentId}", "get", "DeploymentRead", "Get", get),
		Handle(http.MethodDelete, "/deployments/{deploymentId}", "reset", v1alpha1.PermissionAdmin, "Reset", get),
		Handle(http.MethodPost, "/deployments/{deploymentId}/files", "addFile", "DeploymentRead", "Add", get).WithCachedDeployment(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// send serves a request of a principal and returns status and body.
func send(a *API, p *auth.Principal, method, target, body string) (*httptest.ResponseRecorder, string) {
	w := httptest.NewRecorder()
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "uid-1"}}
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a.ServeHTTP(w, r, account, p)
	return w, strings.TrimSpace(w.Body.String())
}

// A body that arrives too slowly is 408.
func TestSlowBody(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/things", iotest.ErrReader(serving.ErrSlowBody))
	r.Header.Set("Content-Type", "application/json")
	newTestAPI(t).ServeHTTP(w, r, &v1alpha1.Account{}, admin)
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), `"error"`) {
		t.Errorf("got %d %s, want 408", w.Code, w.Body)
	}
}

// TestContentHeaders: media types have no case, and encodings of bodies are not supported.
func TestContentHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		want   int
		text   string
	}{
		"JSON":                     {http.Header{"Content-Type": {"application/json"}}, 201, ""},
		"another case":             {http.Header{"Content-Type": {"Application/JSON"}}, 201, ""},
		"with a charset":           {http.Header{"Content-Type": {"Application/JSON; charset=UTF-8"}}, 201, ""},
		"another media type":       {http.Header{"Content-Type": {"Text/Plain"}}, 415, "text/plain"},
		"identity":                 {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"Identity"}}, 201, ""},
		"an encoding":              {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, 415, `Content-Encoding: \"gzip\"`},
		"an encoding after others": {http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity", "br"}}, 415, `\"br\"`},
	} {
		r := httptest.NewRequest(http.MethodPost, "/things", strings.NewReader(`{"name":"x"}`))
		r.Header = c.header
		w := httptest.NewRecorder()
		newTestAPI(t).ServeHTTP(w, r, &v1alpha1.Account{}, admin)
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.want)
		}
	}
}

var admin = &auth.Principal{Kind: auth.KindAPIKey, Name: "k", Grants: access.OnAll(v1alpha1.PermissionAdmin)}

func TestResponses(t *testing.T) {
	a := newTestAPI(t)
	reader := &auth.Principal{Kind: auth.KindAPIKey, Name: "r", Grants: access.OnAll("DeploymentRead")}
	restricted := &auth.Principal{Kind: auth.KindAPIKey, Name: "c", Grants: access.On([]string{"two"}, v1alpha1.PermissionAdmin)}
	for name, c := range map[string]struct {
		principal            *auth.Principal
		method, target, body string
		status               int
		want                 string
	}{
		"created":                       {admin, "POST", "/things", `{"name":"a"}`, 201, `{"name":"a"}`},
		"unknown path":                  {admin, "GET", "/nothing", "", 404, `{"error":"no such path"}`},
		"unknown method":                {admin, "PUT", "/things", "", 405, `{"error":"method PUT is not served here; allowed: GET, POST"}`},
		"wrong case of a name":          {admin, "POST", "/things", `{"Name":"a"}`, 400, `{"error":"body: expected required property name to be present; Name: unexpected property"}`},
		"value out of bounds":           {admin, "POST", "/things", `{"name":"abcdef"}`, 400, `{"error":"name: \"abcdef\": expected length <= 5"}`},
		"secret out of bounds":          {admin, "POST", "/things", `{"name":"a","secret":"pssst!"}`, 400, `{"error":"secret: expected length <= 5"}`},
		"secret of the wrong type":      {admin, "POST", "/things", `{"name":"a","extra":{"x":7}}`, 400, `{"error":"extra.x: expected string"}`},
		"secret in a list":              {admin, "POST", "/things", `{"name":"a","parts":[{"key":"pssst!","count":1}]}`, 400, `{"error":"parts[0].key: expected length <= 5"}`},
		"parent of a secret":            {admin, "POST", "/things", `{"name":"a","parts":["pssst!"]}`, 400, `{"error":"parts[0]: expected object"}`},
		"sibling of a secret":           {admin, "POST", "/things", `{"name":"a","parts":[{"key":"k","count":"x"}]}`, 400, `{"error":"parts[0].count: \"x\": expected integer"}`},
		"duplicate parameter":           {admin, "GET", "/things?first=1&first=2", "", 400, `{"error":"first: is there 2 times; allowed: once"}`},
		"deployment":                    {reader, "GET", "/deployments/1", "", 200, `{"name":"one"}`},
		"deployment of the cache":       {reader, "POST", "/deployments/1/files", "", 200, `{"name":"cached one"}`},
		"missing deployment":            {reader, "GET", "/deployments/2", "", 404, `{"error":"deployment 2 does not exist"}`},
		"deployment id is no number":    {reader, "GET", "/deployments/x", "", 400, `{"error":"deploymentId: \"x\" is not a number of at most 16 digits"}`},
		"deployment out of scope":       {restricted, "GET", "/deployments/1", "", 403, `{"error":"ApiKey \"c\" does not hold the permission DeploymentRead on deployment 1"}`},
		"missing permission":            {reader, "DELETE", "/deployments/1", "", 403, `{"error":"ApiKey \"r\" does not hold the permission Admin"}`},
		"restricted principal as Admin": {restricted, "DELETE", "/deployments/1", "", 403, `{"error":"ApiKey \"c\" is limited to certain deployments; the permission Admin concerns the whole account"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if w, got := send(a, c.principal, c.method, c.target, c.body); w.Code != c.status || got != c.want {
				t.Errorf("got %d %s\nwant %d %s", w.Code, got, c.status, c.want)
			}
		})
	}
	if w, _ := send(a, admin, "PUT", "/things", ""); w.Header().Get("Allow") != "GET, POST" {
		t.Errorf("Allow is %q", w.Header().Get("Allow"))
	}
}

func TestCursorOfAnotherList(t *testing.T) {
	a := newTestAPI(t)
	var page struct{ PageInfo PageInfo }
	_, body := send(a, admin, "GET", "/things?first=1&sort=up", "")
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatal(err)
	}
	after := *page.PageInfo.EndCursor
	for target, status := range map[string]int{
		"/things?first=2&sort=up&after=" + after: 200,
		"/things?sort=up&after=" + after:         200,
		"/things?sort=down&after=" + after:       400,
		"/things?after=" + after:                 400,
		"/others?sort=up&after=" + after:         400,
	} {
		w, body := send(a, admin, "GET", target, "")
		if w.Code != status || status == 400 && !strings.HasPrefix(body, `{"error":"after: `) {
			t.Errorf("GET %s: %d %s, want %d", target, w.Code, body, status)
		}
	}
}

// TestInvalidFamilies: errors in a table of routes are found when the process starts.
func TestInvalidFamilies(t *testing.T) {
	type thing struct{ Other int } // the name of another type of the document
	first := Handle(http.MethodPost, "/a", "a", NoPermission, "A", func(context.Context, *thingInput) (*thingOutput, error) { return nil, nil })
	second := func(method, path string) Route {
		return Handle(method, path, "b", NoPermission, "B", func(context.Context, *struct{}) (*struct{ Body thing }, error) { return nil, nil })
	}
	for name, routes := range map[string][]Route{
		"two types of one name": {first, second(http.MethodGet, "/b")},
		"duplicate route":       {first, first},
		"unsupported method":    {second(http.MethodOptions, "/b")},
	} {
		if _, err := New(Options{}, Family{Tag: "T", Routes: routes}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLibraryOfOtherAPIs: the errors of other APIs of the process are those of the library.
func TestLibraryOfOtherAPIs(t *testing.T) {
	newTestAPI(t)
	mux := http.NewServeMux()
	other := humago.New(mux, huma.DefaultConfig("Other", "1"))
	huma.Register(other, huma.Operation{OperationID: "x", Method: http.MethodGet, Path: "/x"}, func(context.Context, *struct {
		N int `query:"n" minimum:"1"`
	}) (*struct{}, error) {
		return nil, nil
	})
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x?n=0", nil))
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"title":"Unprocessable Entity"`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if _, ok := huma.NewError(http.StatusBadRequest, "").(*huma.ErrorModel); !ok {
		t.Error("huma.NewError was replaced")
	}
}

// TestPreferredRoutes has patterns that match the same path, where neither is more specific.
func TestPreferredRoutes(t *testing.T) {
	type output struct {
		Body struct {
			Route string `json:"route"`
		}
	}
	route := func(method, path, id string) Route {
		return Handle(method, path, id, NoPermission, id, func(context.Context, *struct{}) (*output, error) {
			out := &output{}
			out.Body.Route = id
			return out, nil
		})
	}
	a, err := New(Options{}, Family{Tag: "Books", Routes: []Route{
		route(http.MethodPut, "/books/{id}/pages", "pages"), route(http.MethodPut, "/books/by-slug/{slug}", "slug").Preferred(), route(http.MethodGet, "/books/{id}", "book"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"PUT", "/books/1/pages", 200, "pages"}, {"PUT", "/books/by-slug/x", 200, "slug"}, {"PUT", "/books/by-slug/pages", 200, "slug"},
		{"GET", "/books/by-slug", 200, "book"}, {"GET", "/books/by-slug/x", 405, "allowed: PUT"}, {"GET", "/books/1/pages", 405, "allowed: PUT"}, {"PUT", "/books/1/x", 404, "no such path"},
	} {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil), &v1alpha1.Account{}, &auth.Principal{})
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s, want %d with %q", c.method, c.path, w.Code, w.Body, c.status, c.want)
		}
	}
}
