package content

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that serves one bulk request, and stops at a point.
const childURL = "QUOIN_BULK_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(argument string) error{childURL: func(argument string) error {
		stepping, values, err := contenttest.OpenChild(argument, storeOwners...)
		if err != nil {
			return err
		}
		if code, body := serve(context.Background(), stepping, http.MethodPost, bulkRequests[values[1]].path, bulkRequests[values[1]].body); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	}})
}

var storeOwners = append([]store.Owner{audit.Owner}, Owners...)

// bulkRequests are requests on the folders 1 and 2, workbook 1 and report 1. done has the objects for which each was done, by the number of items.
var bulkRequests = map[string]struct{ path, body, query string }{
	"move": {
		"/workspace/bulk-move", `{"folderId":2,"items":[{"type":"WORKBOOK","id":1},{"type":"REPORT","id":1},{"type":"FOLDER","id":1}]}`,
		"SELECT (SELECT COUNT(*) FROM workbook WHERE folder_id = 2), (SELECT COUNT(*) FROM report WHERE folder_id = 2), (SELECT COUNT(*) FROM folder WHERE parent_id = 2)",
	},
	"delete": {
		"/workspace/bulk-delete", `{"items":[{"type":"WORKBOOK","id":1},{"type":"REPORT","id":1},{"type":"FOLDER","id":1}]}`,
		"SELECT (SELECT 1 - COUNT(*) FROM workbook), (SELECT 1 - COUNT(*) FROM report), (SELECT 2 - COUNT(*) FROM folder)",
	},
}

// serve sends a request of an administrator to an API with a database.
func serve(ctx context.Context, db content.Database, method, path, body string) (int, string) {
	api, err := rest.New(rest.Options{Deployments: sales{}}, New(Options{Database: db})...)
	if err != nil {
		return 0, err.Error()
	}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a1"}, Spec: v1alpha1.AccountSpec{
		Host: "acme.example.com:8443", Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}}
	admin := &auth.Principal{Kind: auth.KindAPIKey, ID: "k1", Grants: access.OnAll(v1alpha1.PermissionAdmin)}
	ctx = recording.NewRequest(ctx, nil, account, admin, audit.SourceREST).With(ctx)
	r := httptest.NewRequestWithContext(ctx, method, "/api/v1/deployments/1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r, account, admin)
	return w.Code, w.Body.String()
}

// TestBulkRequestsAreKilled kills the process at each point of a bulk request: before and after the commit for each item. The
// items before are done, each with its event, and none is half done.
func TestBulkRequestsAreKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for name, request := range bulkRequests {
			for stop := 1; stop <= 6; stop++ {
				t.Run(fmt.Sprint(name, " at point ", stop), func(t *testing.T) {
					url := newDatabase(t)
					db := contenttest.Open(t, url, storeOwners...)
					for _, created := range []struct{ path, body string }{
						{"/folders", `{"name":"one"}`}, {"/folders", `{"name":"two"}`}, {"/workbooks", `{}`}, {"/reports", `{}`},
					} {
						if code, body := serve(t.Context(), db, http.MethodPost, created.path, created.body); code != http.StatusOK {
							t.Fatalf("%s: %d %s", created.path, code, body)
						}
					}
					if err := db.Close(); err != nil {
						t.Fatal(err)
					}
					storetest.KillChild(t, childURL, contenttest.Arguments(stop, url, name), func(line string) bool { return line == contenttest.Stopped })
					db = contenttest.Open(t, url, storeOwners...)
					var workbook, report, folder int
					if err := db.Reader().QueryRowContext(t.Context(), request.query).Scan(&workbook, &report, &folder); err != nil {
						t.Fatal(err)
					}
					done := stop / 2
					got, want := [3]int{workbook, report, folder}, [3]int{min(1, done), min(1, max(0, done-1)), min(1, max(0, done-2))}
					if events := contenttest.Count(t, db, "audit_event"); got != want || events != 4+done {
						t.Errorf("done: %v, want %v; %d events, want %d", got, want, events, 4+done)
					}
					if code, body := serve(t.Context(), db, http.MethodPost, request.path, request.body); code != http.StatusOK {
						t.Errorf("again: %d %s", code, body)
					}
				})
			}
		}
	})
}

// TestUnknownPivotItems: a report whose stored pivot items are not of the documented form is shown without them, also in lists, and
// can be changed.
func TestUnknownPivotItems(t *testing.T) {
	db := contenttest.Open(t, "sqlite://"+t.TempDir()+"/content.db", storeOwners...)
	if code, body := serve(t.Context(), db, http.MethodPost, "/reports", `{"name":"Orders","pivotItems":{"rows":["a"],"columns":[],"measures":[],"filters":[]}}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for _, stored := range []string{`{"rows":"a"}`, `[]`, `{`} {
		contenttest.Exec(t, db, "UPDATE report SET pivot_items = $1", stored)
		for _, request := range []struct{ method, path, body string }{
			{http.MethodGet, "/reports/1", ""}, {http.MethodGet, "/reports", ""}, {http.MethodPut, "/reports/1", `{"title":"x"}`},
		} {
			code, body := serve(t.Context(), db, request.method, request.path, request.body)
			if code != http.StatusOK || !strings.Contains(body, `"name":"Orders"`) || strings.Contains(body, "pivotItems") {
				t.Errorf("%s: %s %s: %d %s", stored, request.method, request.path, code, body)
			}
		}
	}
}

// TestOwnersHaveAddresses: the address of a program is in the domain of the account, without the port of the host.
func TestOwnersHaveAddresses(t *testing.T) {
	db := contenttest.Open(t, "sqlite://"+t.TempDir()+"/content.db", storeOwners...)
	if code, body := serve(t.Context(), db, http.MethodPost, "/folders", `{"name":"one"}`); code != http.StatusOK || !strings.Contains(body, `"email":"k1@acme.example.com"`) {
		t.Errorf("%d %s", code, body)
	}
}
