package aggregation

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// respond writes a response to a proxied request and returns what the client receives.
func respond(t *testing.T, code int, mediaType string, parts ...string) *httptest.ResponseRecorder {
	t.Helper()
	return respondTo(t, "application/json, */*", code, mediaType, parts...)
}

// respondTo does the same for a client that sends the header Accept.
func respondTo(t *testing.T, accept string, code int, mediaType string, parts ...string) *httptest.ResponseRecorder {
	t.Helper()
	recorder, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", accept)
	f := newFailures(recorder, r)
	f.Header().Set("Content-Type", mediaType)
	f.Header().Set("Retry-After", "3")
	f.WriteHeader(code)
	for _, part := range parts {
		if _, err := io.WriteString(f, part); err != nil {
			t.Fatal(err)
		}
	}
	f.end()
	if recorder.Code != code || recorder.Header().Get("Retry-After") != "3" {
		t.Errorf("%d, headers %v", recorder.Code, recorder.Header())
	}
	return recorder
}

// TestOtherResponsesAreUnchanged: only documented errors are converted to a Status.
func TestOtherResponsesAreUnchanged(t *testing.T) {
	long := `{"error":"` + strings.Repeat("x", maxFailure) + `"}`
	for name, test := range map[string]struct {
		code      int
		mediaType string
		parts     []string
	}{
		"success":    {200, "application/json", []string{`{"error":"a `, `field"}`}},
		"no content": {204, "", nil},
		"redirect":   {304, "application/json", nil},
		"SCIM":       {200, "application/scim+json", []string{`{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"detail":"x"}`}},
		"other JSON": {400, "application/json", []string{`{"detail":"x"}`}},
		"not JSON":   {500, "application/json", []string{`x`}},
		"empty":      {500, "application/json", nil},
		"too long":   {500, "application/json", []string{long[:10], long[10:]}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := respond(t, test.code, test.mediaType, test.parts...).Body.String(), strings.Join(test.parts, ""); got != want {
				t.Errorf("%.200s, want %.200s", got, want)
			}
		})
	}
}

// TestErrorsAreStatuses: Kubernetes clients show the message of an error, which is also in the
// documented field.
func TestErrorsAreStatuses(t *testing.T) {
	const message = `name: "x" is the name of another deployment`
	for code, reason := range map[int]string{400: "BadRequest", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"} {
		documented := `{"error":"name: \"x\" is the name of another deployment"}`
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got := respond(t, code, "application/json; charset=utf-8", documented[:7], documented[7:])
			if !strings.Contains(got.Body.String(), documented[1:]) {
				t.Errorf("%d: the documented field is missing: %s", code, got.Body)
			}
			w.Header().Set("Content-Type", got.Header().Get("Content-Type"))
			w.WriteHeader(code)
			_, _ = got.Body.WriteTo(w)
		}))
		defer server.Close()
		client, err := rest.RESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
			GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs,
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Get().AbsPath("/a").MaxRetries(0).Stream(t.Context()) // as kubectl get --raw does
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Message != message || string(status.Status().Reason) != reason || int(status.Status().Code) != code {
			t.Errorf("%d: the client returns %v", code, err)
		}
	}
}

// TestSCIMErrors: a SCIM error is a Status with its detail for clients such as kubectl, and unchanged for those that accept SCIM.
func TestSCIMErrors(t *testing.T) {
	const scim = `{"schemas":["urn:ietf:params:scim:api:messages:2.0:Error"],"status":"409","scimType":"uniqueness","detail":"userName: \"x\" is taken"}`
	for _, accept := range []string{"application/scim+json", "application/scim+json, application/json", "text/html, application/SCIM+json;q=0.5"} {
		if got := respondTo(t, accept, 409, "application/scim+json", scim); got.Body.String() != scim || got.Header().Get("Vary") != "Accept" {
			t.Errorf("%s: %s, headers %v", accept, got.Body, got.Header())
		}
	}
	for _, accept := range []string{"", "*/*", "application/json, */*", "application/yaml"} {
		got := respondTo(t, accept, 409, "application/scim+json; charset=utf-8", scim[:10], scim[10:])
		status := metav1.Status{}
		if err := json.Unmarshal(got.Body.Bytes(), &status); err != nil {
			t.Fatal(err)
		}
		want := metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: 409,
			Message: `userName: "x" is taken`,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "uniqueness", Message: `userName: "x" is taken`}}},
		}
		if diff := cmp.Diff(want, status); diff != "" || got.Header().Get("Content-Type") != "application/json" || got.Header().Get("Vary") != "Accept" {
			t.Errorf("%s: headers %v (-want +got):\n%s", accept, got.Header(), diff)
		}
	}
}
