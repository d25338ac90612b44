package audit_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const users, groups, keys = "/api/scim/v2/Users", "/api/scim/v2/Groups", "/api/v1/api-keys"

func user(name string) map[string]any { return map[string]any{"userName": name} }

// Spec, "Export audit log": a CSV file, streamed as an attachment.
func TestChangesAreExportedAsCSV(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ada := w.want(201, w.admin, "POST", users, user("ada@example.com")).field("id")
		w.want(201, w.admin, "POST", groups, map[string]any{"displayName": "Analysts", "members": []any{map[string]any{"value": ada}}})
		w.want(409, w.admin, "POST", users, user("Ada@Example.com")) // changes nothing
		w.want(200, w.admin, "PATCH", users+"/"+ada, map[string]any{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"},
			"Operations": []any{map[string]any{"op": "replace", "path": "title", "value": "=HYPERLINK(\"x\")"}}})
		key := w.want(200, w.admin, "POST", keys, map[string]any{"name": "CI"})
		w.want(200, w.admin, "DELETE", keys+"/"+key.field("id"), nil)
		w.want(204, w.admin, "DELETE", users+"/"+ada, nil)

		a := w.want(200, w.admin, "GET", "/api/v1/audit-logs/export", nil)
		if got := a.header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
			t.Errorf("Content-Type %q", got)
		}
		if got := a.header.Get("Content-Disposition"); !strings.HasPrefix(got, `attachment; filename="audit-log-`+w.account) {
			t.Errorf("Content-Disposition %q", got)
		}
		if !strings.HasPrefix(a.text, "time,event,user_email,actor,deployment_id,deployment_name,object,outcome,source,ip,request_id,data\r\n") {
			t.Errorf("header row %.120q", a.text)
		}
		if strings.Contains(a.text, key.field("token")) {
			t.Error("the log contains the token of a key")
		}
		rows := w.export(nil)
		w.checkRows(rows)
		var events []string
		for _, r := range rows {
			events = append(events, strings.Join([]string{r["event"], r["outcome"], r["source"], r["actor"], r["ip"]}, ", "))
		}
		want := []string{
			"Created user via SCIM, succeeded, scim, key:admin, 127.0.0.1",
			"Created group via SCIM, succeeded, scim, key:admin, 127.0.0.1",
			"Updated user via SCIM, succeeded, scim, key:admin, 127.0.0.1",
			"Created API key, succeeded, rest, key:admin, 127.0.0.1",
			"Deleted API key, succeeded, rest, key:admin, 127.0.0.1",
			"Deleted user via SCIM, succeeded, scim, key:admin, 127.0.0.1",
			"Updated group via SCIM, succeeded, scim, key:admin, 127.0.0.1", // its member was deleted
		}
		slices.Sort(want)
		slices.Sort(events)
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		data := func(event string) string {
			return rows[slices.IndexFunc(rows, func(r row) bool { return r["event"] == event })]["data"]
		}
		if data := data("Created group via SCIM"); !strings.Contains(data, ada) || strings.Contains(data, "memberChunk") {
			t.Errorf("the added member is missing: %s", data)
		}
		if data := data("Updated group via SCIM"); !strings.Contains(data, `"removed":["`+ada) {
			t.Errorf("the removed member is missing: %s", data)
		}
		if data := data("Updated user via SCIM"); !strings.Contains(data, "HYPERLINK") {
			t.Errorf("the changed value is missing: %s", data)
		}
	})
}

// A change of the account's settings is an event with the changed fields.
func TestChangeOfTenantSettingsIsRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.want(200, w.admin, "PUT", "/api/v1/tenant/settings", map[string]any{"hasSupportAccess": true, "maintenanceWindowTime": "04:00"})
		w.want(200, w.admin, "PUT", "/api/v1/tenant/settings", map[string]any{"hasSupportAccess": true}) // changes nothing
		w.want(400, w.admin, "PUT", "/api/v1/tenant/settings", map[string]any{"maintenanceWindowTime": "4"})
		rows := w.export(nil)
		w.checkRows(rows)
		if len(rows) != 1 || rows[0]["event"] != "Updated account settings" || rows[0]["outcome"] != "succeeded" || rows[0]["actor"] != "key:admin" {
			t.Fatalf("events %v", rows)
		}
		for _, want := range []string{`"spec.settings.supportAccess":{"after":true}`, `"spec.settings.maintenanceWindow.time":{"after":"04:00"}`} {
			if !strings.Contains(rows[0]["data"], want) {
				t.Errorf("the event does not contain %s: %s", want, rows[0]["data"])
			}
		}
	})
}

// checkRows checks the format of events.
func (w *world) checkRows(rows []row) {
	w.t.Helper()
	for _, r := range rows {
		if at, err := time.Parse(time.RFC3339, r["time"]); err != nil || at.Before(w.started) || at.After(time.Now().Add(time.Second)) {
			w.t.Errorf("time %q of %s", r["time"], r["event"])
		}
		if !json.Valid([]byte(r["data"])) || r["request_id"] == "" || strings.HasPrefix(r["data"], "=") {
			w.t.Errorf("%v", r)
		}
	}
}

// filter is a query parameter of an export and the events that pass it.
type filter struct {
	name, value string
	passes      func(row) bool
}

// contradicts reports whether the filters are an interval that is rejected as empty.
func (f filter) contradicts(other filter) bool {
	return f.name == "start" && other.name == "end" && (f.value == day(1) || other.value == day(-1) || f.value > other.value)
}

// day returns a date n days from now.
func day(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }

// exportFilters returns filters for three events: two users created before the time middle, an API key created after it by a
// key of the first user.
func exportFilters(middle time.Time) []filter {
	after := func(r row) bool { at, _ := time.Parse(time.RFC3339, r["time"]); return !at.Before(middle) }
	before := func(r row) bool { return !after(r) }
	all, none := func(row) bool { return true }, func(row) bool { return false }
	return []filter{
		{"start", middle.Format(time.RFC3339Nano), after},
		{"start", day(0), all},
		{"start", day(1), none},
		{"end", middle.Format(time.RFC3339Nano), before},
		{"end", middle.In(time.FixedZone("", 7200)).Format(time.RFC3339Nano), before},
		{"end", day(0), all}, // the day is included
		{"end", day(-1), none},
		{"search", "ADA", func(r row) bool { return strings.Contains(r["data"]+r["user_email"], "ada@") }},
		{"search", "night bui", func(r row) bool { return strings.Contains(r["data"], "Nightly build") }},
		{"search", "nothing-like-it", none},
		{"eventName", "Created API key", func(r row) bool { return r["event"] == "Created API key" }},
		{"eventName", "Deleted deployment", none},
		{"userEmail", "Ada@Example.com", func(r row) bool { return r["user_email"] == "ada@example.com" }},
		{"userEmail", "eve@example.com", none},
	}
}

// checkFilters checks that an export has exactly the events that pass all filters.
func (w *world) checkFilters(all []row, filters ...filter) {
	w.t.Helper()
	query, want := url.Values{}, []string(nil)
	for _, f := range filters {
		query.Set(f.name, f.value)
	}
	for _, r := range all {
		if !slices.ContainsFunc(filters, func(f filter) bool { return !f.passes(r) }) {
			want = append(want, r["time"]+r["event"])
		}
	}
	var got []string
	for _, r := range w.export(query) {
		got = append(got, r["time"]+r["event"])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%v (-want +got):\n%s", query, diff)
	}
}

// makeAdmin gives a user the permission Admin, with kubectl: a key has at most the permissions of its owner.
func (w *world) makeAdmin(name string) {
	w.t.Helper()
	u := &v1alpha1.ScimUser{}
	u.Namespace, u.Name = w.account, name
	ok(w.t, kubernetes.Client.Patch(w.t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"admin":true}}`))))
}

// Each filter alone, and all pairs of filters.
func TestFiltersOfTheExportCombine(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ada := w.want(201, w.admin, "POST", users, map[string]any{"userName": "ada@example.com", "emails": []any{map[string]any{"value": "ada@example.com", "primary": true}}})
		w.makeAdmin(ada.field("id"))
		w.want(201, w.admin, "POST", users, user("bob@example.com"))
		time.Sleep(2 * time.Millisecond) // times of events have microseconds
		middle := time.Now().UTC()
		owned := w.key("owned", v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: ada.field("id")}})
		w.eventually(func() error { // until the watch of the server delivers the key
			if a := w.call(owned, "GET", "/api/v1/users/me", nil); a.status != 200 {
				return fmt.Errorf("%s", a)
			}
			return nil
		})
		w.want(200, owned, "POST", keys, map[string]any{"name": "Nightly build"})
		all := w.export(nil)
		if len(all) != 3 {
			t.Fatalf("%d events: %v", len(all), all)
		}
		filters := exportFilters(middle)
		for i, f := range filters {
			w.checkFilters(all, f)
			for _, other := range filters[i+1:] {
				if f.name != other.name && !f.contradicts(other) {
					w.checkFilters(all, f, other)
				}
			}
		}
		w.checkFilters(all, filters[0], filters[5], filters[8], filters[10], filters[12])
		if owner := all[2]["user_email"]; owner != "ada@example.com" {
			t.Errorf("the event of a key that acts for a user has the e-mail address %q", owner)
		}
	})
}

// Spec, preconditions: the audit log is enabled, and the caller has the permission AuditLogManage.
func TestExportRequiresTheFeatureAndThePermission(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const path = "/api/v1/audit-logs/export"
		manager := w.key("manager", v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionAuditLogManage}})
		other := w.key("other", v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{"DeploymentsManage", "ScimManage"}})
		confined := w.key("confined", v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionAuditLogManage}, Deployments: []string{"analytics"}})
		w.eventually(func() error {
			for _, token := range []string{manager, other, confined} {
				if a := w.call(token, "GET", "/api/v1/users/me", nil); a.status != 200 {
					return fmt.Errorf("%s", a)
				}
			}
			return nil
		})
		w.want(200, manager, "GET", path, nil)
		for token, message := range map[string]string{other: "does not hold the permission AuditLogManage", confined: "limited to certain deployments"} {
			if got := w.want(403, token, "GET", path, nil).field("error"); !strings.Contains(got, message) {
				t.Errorf("%q, want %q", got, message)
			}
		}
		w.want(401, "", "GET", path, nil)

		account := &v1alpha1.Account{}
		ok(t, kubernetes.Client.Get(t.Context(), client.ObjectKey{Name: w.account}, account))
		account.Spec.AuditLog.Enabled = ptr.To(false)
		ok(t, kubernetes.Client.Update(t.Context(), account))
		w.eventually(func() error {
			a := w.call(manager, "GET", path, nil)
			if a.status != 403 || !strings.Contains(a.field("error"), "not enabled") {
				return fmt.Errorf("%s", a)
			}
			return nil
		})
		if got := w.want(403, other, "GET", path, nil).field("error"); !strings.Contains(got, "AuditLogManage") {
			t.Errorf("without feature and permission: %q", got)
		}
		w.want(201, w.admin, "POST", users, user("unrecorded"))
	})
}

func TestInvalidParametersAreRejected(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.want(201, w.admin, "POST", users, user("ada@example.com"))
		for query, message := range map[string]string{
			"start=yesterday":                                      `start: "yesterday" is no date such as`,
			"start=2026-02-30":                                     `start: "2026-02-30" is no date`,
			"end=2026-11-21T25:00:00Z":                             `end: "2026-11-21T25:00:00Z" is no date`,
			"end=1700000000":                                       `end: "1700000000" is no date`,
			"start=2026-11-22T00:00:00Z&end=2026-11-21":            "",
			"start=2026-11-23&end=2026-11-21":                      `start: "2026-11-23" is after end, "2026-11-21"`,
			"eventName=Created+nothing":                            "Created nothing",
			"eventName=created+deployment":                         "created deployment",
			"search=" + strings.Repeat("x", 1001):                  "search",
			"search=" + url.QueryEscape(strings.Repeat("a ", 400)): "search",
			"userEmail=" + strings.Repeat("x", 321):                "userEmail",
			"start=2026-11-21&start=2026-11-22":                    "start",
			"unknown=1":                                            "unknown",
			"start=":                                               "",
		} {
			status := 400
			if message == "" {
				status = 200
			}
			if got := w.want(status, w.admin, "GET", "/api/v1/audit-logs/export?"+query, nil); status == 400 && !strings.Contains(got.field("error"), message) {
				t.Errorf("%.60s: %q, want %q", query, got.field("error"), message)
			}
		}
		// Query syntax of the databases has no effect.
		for _, search := range []string{`' OR 'absent'='absent`, `ada" OR "absent`, `NEAR(ada bob)`, `ada AND NOT created`, `:* | !absent`, `title:ada`, "ada\x00bob"} {
			if found := w.export(url.Values{"search": {search}}); len(found) != 0 {
				t.Errorf("the search for %q returns %v", search, found)
			}
		}
		for _, search := range []string{`"`, `%`, `_`, "\x00", `\`, `{}`, "🦊", `' --`} {
			w.want(400, w.admin, "GET", "/api/v1/audit-logs/export?search="+url.QueryEscape(search), nil)
		}
		if found := w.export(url.Values{"search": {"ada*"}}); len(found) != 1 {
			t.Errorf("the search for ada* returns %d events", len(found))
		}
	})
}
