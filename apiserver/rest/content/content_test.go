package content

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/store"
)

// sales resolves every id to the deployment "sales".
type sales struct{}

func (sales) Find(context.Context, string, string) (*v1alpha1.Deployment, error) {
	return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales", UID: "d1", Labels: map[string]string{v1alpha1.LabelID: "1"}}}, nil
}

func TestContentIsUnavailableWithoutItsDatabase(t *testing.T) {
	for message, o := range map[string]Options{
		"has no --database-url":         {},
		"the database is not available": {Database: store.NewDatabase("postgres://127.0.0.1:1/quoin", nil)},
	} {
		api, err := rest.New(rest.Options{Deployments: sales{}}, New(o)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []struct{ method, path, body string }{
			{"GET", "", ""}, {"POST", "", `{"name":"x"}`}, {"PUT", "/1", `{"name":"x"}`}, {"DELETE", "/1", ""}, {"GET", "/1/ancestors", ""},
		} {
			r := httptest.NewRequestWithContext(t.Context(), call.method, "/api/v1/deployments/1/folders"+call.path, strings.NewReader(call.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r, &v1alpha1.Account{}, &auth.Principal{Permissions: []v1alpha1.Permission{v1alpha1.PermissionAdmin}})
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), message) {
				t.Errorf("%s %s: %d %s, want 503 with %q", call.method, call.path, w.Code, w.Body, message)
			}
		}
	}
}
