package scim_test

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/scim"
)

// FuzzServer checks that no request causes a panic or a server error, that errors are SCIM errors, and that
// all stored resources can be listed afterwards.
func FuzzServer(f *testing.F) {
	patchURN := `"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"]`
	for _, seed := range [][4]string{
		{"POST", "/Users", "", `{"userName":"b","emails":[{"value":"x","primary":true}]}`},
		{"GET", "/Users", `filter=emails[type eq "work"].value co "x"&sortBy=name.familyName&count=2`, ""},
		{"GET", "/Users", "cursor=&attributes=userName", ""},
		{"PATCH", "/Users/user-000001", "attributes=emails", `{` + patchURN + `,"Operations":[{"op":"Add","path":"emails[type eq \"work\"].value","value":"x"}]}`},
		{"PATCH", "/Groups/group-000002", "", `{` + patchURN + `,"Operations":[{"op":"Remove","path":"members","value":[{"value":"user-000001"}]}]}`},
		{"PUT", "/Groups/group-000002", "", `{"displayName":"B","members":[]}`},
		{"POST", "/.search", "", `{"schemas":["urn:ietf:params:scim:api:messages:2.0:SearchRequest"],"filter":"meta.resourceType eq \"User\" or displayName pr"}`},
		{"POST", "/Bulk", "", `{"schemas":["urn:ietf:params:scim:api:messages:2.0:BulkRequest"],"Operations":[{"method":"POST","path":"/Users","bulkId":"q","data":{"userName":"bulkId:q"}}]}`},
		{"GET", "/Schemas/urn:ietf:params:scim:schemas:core:2.0:User", "", ""},
		{"DELETE", "/Users/user-000001", "", ""},
	} {
		for profile := range byte(4) {
			f.Add(seed[0], seed[1], seed[2], seed[3], profile)
		}
	}
	f.Fuzz(func(t *testing.T, method, path, query, body string, profile byte) {
		if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method) || !strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
			return
		}
		s := newService()
		s.do(t, "POST", "/Users", `{"userName":"ada","name":{"familyName":"L"}}`)
		s.do(t, "POST", "/Groups", `{"displayName":"A","members":[{"value":"user-000001"}]}`)
		s.caller.Profile = []string{"", scim.ProfileRFC, scim.ProfileOkta, scim.ProfileEntraID}[profile%4]
		s.send(t, method, path, query, body)
		for _, endpoint := range []string{"/Users", "/Groups"} {
			if r, answer := s.do(t, "GET", endpoint, ""); r.Code != 200 {
				t.Fatalf("%s after the request: %d %v", endpoint, r.Code, answer)
			}
		}
	})
}

// send is like do for paths that are not valid URLs.
func (s *service) send(t *testing.T, method, path, query, body string) {
	r := httptest.NewRequestWithContext(t.Context(), method, scim.BasePath, strings.NewReader(body))
	r.URL = &url.URL{Path: scim.BasePath + path, RawQuery: query}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r, s.tenant, s.caller)
	if w.Code >= 500 {
		t.Fatalf("%s %s?%s %s: %d %s", method, path, query, body, w.Code, w.Body)
	}
	if w.Code >= 400 && (!strings.Contains(w.Body.String(), "messages:2.0:Error") || w.Header().Get("Content-Type") != scim.MediaType) {
		t.Fatalf("%s %s: %d is not a SCIM error: %s", method, path, w.Code, w.Body)
	}
}
