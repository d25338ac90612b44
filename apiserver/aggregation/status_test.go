package aggregation

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// respond writes a response to a proxied request and returns what the client receives.
func respond(t *testing.T, code int, mediaType string, parts ...string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	f := &failures{ResponseWriter: recorder}
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
		"SCIM":       {404, "application/scim+json", []string{`{"schemas":["urn:ietf:params:scim:api:messages:2.0:Error"],"detail":"x"}`}},
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
