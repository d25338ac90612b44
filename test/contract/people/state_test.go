package people_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// numberOf returns the number of the user with a SCIM id.
func numberOf(id string) string { return fmt.Sprint(number.Of(schema.User.Name, id)) }

// rawNumber returns a number for JSON.
func rawNumber(text string) json.Number { return json.Number(text) }

func TestSettings(t *testing.T) {
	w := newWorld(t)
	w.user("ann", "isAdmin", true)
	mine := w.keyOf(w.object("ann").Name)
	patch := func(body any) response {
		t.Helper()
		return w.want(200, mine, "PATCH", settingsPath, body)
	}
	for _, step := range []struct {
		patch string
		want  []any
	}{
		{`{}`, []any{"settings", nil}},
		{`{"theme":"dark","defaultDeploymentId":7,"alternatingRowColors":true,"lastSeenChangelogId":3}`,
			[]any{"settings.theme", "dark", "settings.defaultDeploymentId", 7, "settings.alternatingRowColors", true, "settings.lastSeenChangelogId", nil, "isAdmin", true}},
		{`{"sheets":{"revealSheetOnOpen":true},"locale":"en-US","timezone":"America/Los_Angeles"}`,
			[]any{"settings.theme", "dark", "settings.sheets.revealSheetOnOpen", true, "settings.timezone", "America/Los_Angeles"}},
		{`{"sheets":{"showAppliedFilters":false}}`, []any{"settings.sheets.revealSheetOnOpen", true, "settings.sheets.showAppliedFilters", false}},
		{`{"sheets":{"revealSheetOnOpen":null},"locale":null}`,
			[]any{"settings.sheets.revealSheetOnOpen", nil, "settings.sheets.showAppliedFilters", false, "settings.locale", nil}},
		{`{"sheets":null,"defaultDeploymentId":null}`, []any{"settings.sheets", nil, "settings.defaultDeploymentId", nil, "settings.theme", "dark"}},
	} {
		w.has(patch(step.patch), step.want...)
	}
	w.has(w.want(200, mine, "GET", usersPath+"/me", nil), "settings.theme", "dark", "settings.timezone", "America/Los_Angeles", "username", "ann", "id", numberOf(w.object("ann").Name))
	generation := w.object("ann").Generation
	patch(`{"theme":"dark"}`)
	patch(nil)
	for body, text := range map[string]string{
		`{"color":"red"}`: "color", `{"theme":7}`: "theme", `{"theme":"a\u0000"}`: "theme", `{"defaultDeploymentId":0}`: "defaultDeploymentId",
		`{"sheets":{"x":true}}`: "sheets.x", `{"sheets":[]}`: "sheets", `{"theme":"` + strings.Repeat("x", 65) + `"}`: "theme", `[]`: "",
	} {
		w.want(400, mine, "PATCH", settingsPath, body, text)
	}
	w.want(413, mine, "PATCH", settingsPath, `{"theme":"`+strings.Repeat("x", 20<<10)+`"}`)
	if o := w.object("ann"); o.Generation != generation {
		t.Errorf("requests that change nothing have changed generation %d to %d", generation, o.Generation)
	}
	w.want(403, w.admin, "PATCH", settingsPath, `{}`, "does not belong to a user")
}

// TestLastAdmin: the last active administrator stays, also if administrators remove each other at the same time.
func TestLastAdmin(t *testing.T) {
	w := newWorld(t)
	ann := usersPath + "/" + w.user("ann", "isAdmin", true)
	w.user("inactive", "isAdmin", true)
	w.want(200, w.admin, "PUT", usersPath+"/"+w.numberOf("inactive"), map[string]any{"isDeactivated": true})
	const last = "last active administrator"
	w.want(403, w.admin, "DELETE", ann, nil, last)
	w.want(403, w.admin, "PUT", ann, map[string]any{"isDeactivated": true}, last)
	w.want(403, w.admin, "PUT", ann, map[string]any{"isAdmin": false, "title": "Retired"}, last)
	if o := w.object("ann"); o == nil || o.Generation != 1 {
		t.Fatalf("the user has changed: %+v", o)
	}
	mine := w.keyOf(w.object("ann").Name)
	w.want(403, mine, "PUT", ann, map[string]any{"isDeactivated": true}, "yourself")
	w.want(400, mine, "DELETE", ann, nil, "yourself")
	w.user("plain")
	w.want(200, w.admin, "DELETE", usersPath+"/"+w.numberOf("plain"), nil)

	removals := []func(path string) response{
		func(path string) response { return w.call(w.admin, "DELETE", path, nil) },
		func(path string) response {
			return w.call(w.admin, "PUT", path, map[string]any{"isDeactivated": true})
		},
		func(path string) response { return w.call(w.admin, "PUT", path, map[string]any{"isAdmin": false}) },
	}
	paths := []string{ann}
	for round := range 6 {
		for i := len(paths); i < 4; i++ {
			paths = append(paths, usersPath+"/"+w.user(fmt.Sprintf("admin%d-%d", round, i), "isAdmin", true))
		}
		results := make([]response, len(paths))
		var group sync.WaitGroup
		for i, path := range paths {
			group.Go(func() { results[i] = removals[(i+round)%len(removals)](path) })
		}
		group.Wait()
		var stay []string
		for i, a := range results {
			if a.status == 403 {
				stay = append(stay, paths[i])
			} else if a.status != 200 {
				t.Errorf("round %d: %s", round, a)
			}
		}
		if len(stay) != 1 {
			t.Fatalf("round %d: %d administrators stay, want 1: %v", round, len(stay), results)
		}
		w.has(w.want(200, w.admin, "GET", stay[0], nil), "isAdmin", true, "isDeactivated", false)
		paths = stay
	}
}

// TestCrashes kills the server while it deletes users. The request is repeated until it is answered; then all users are
// gone, and their names are free.
func TestCrashes(t *testing.T) {
	w := newWorld(t)
	const users, kills = 40, 3
	var ids []any
	for i := range users {
		ids = append(ids, rawNumber(w.user(fmt.Sprintf("leaver%d", i))))
	}
	body := map[string]any{"action": "DELETE", "userIds": ids}
	left := func() int {
		list := &v1alpha1.ScimUserList{}
		ok(t, kubernetes.Client.List(t.Context(), list, client.InNamespace(w.account)))
		return len(list.Items)
	}
	for range kills {
		before := left()
		var group sync.WaitGroup
		group.Go(func() { w.call(w.admin, "POST", usersPath+"/bulk", body) })
		w.soon(func() error { // in the middle
			if n := left(); n == before && n > 0 {
				return fmt.Errorf("%d users are left", n)
			}
			return nil
		})
		w.server.Kill()
		group.Wait()
		w.start()
	}
	a := w.want(200, w.admin, "POST", usersPath+"/bulk", body)
	failed, _ := a.at("failed").([]any)
	succeeded, _ := a.at("succeeded").([]any)
	if len(failed)+len(succeeded) != users || slices.ContainsFunc(failed, func(entry any) bool { return !strings.Contains(fmt.Sprint(entry), "404") }) {
		t.Errorf("%s", a)
	}
	if n := left(); n != 0 {
		t.Fatalf("%d users are left", n)
	}
	for i := range users {
		w.user(fmt.Sprintf("leaver%d", i))
	}
}

// TestEvents: every change is an event of its caller, and the coordination of requests is none.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	ann, bob := w.user("ann", "isAdmin", true), w.user("bob", "isAdmin", true)
	mine := w.keyOf(w.object("ann").Name)
	w.want(200, mine, "PATCH", settingsPath, `{"theme":"dark"}`)
	w.want(200, mine, "POST", usersPath+"/bulk", map[string]any{"action": "DEACTIVATE", "userIds": []any{rawNumber(bob), rawNumber(ann)}})
	w.want(200, w.admin, "DELETE", usersPath+"/"+bob, nil)
	export := w.want(200, w.admin, "GET", "/api/v1/audit-logs/export", nil)
	records, err := csv.NewReader(strings.NewReader(export.text)).ReadAll()
	ok(t, err)
	var got []string
	for _, record := range records[1:] {
		event := record[slices.Index(records[0], "event")]
		if event != "Exported audit log" {
			got = append(got, strings.Join([]string{event, record[slices.Index(records[0], "user_email")], record[slices.Index(records[0], "outcome")]}, ", "))
		}
	}
	want := []string{
		"Created user, , succeeded", "Created user, , succeeded",
		"Updated user profile, ann@example.com, succeeded", "Updated user profile, ann@example.com, succeeded",
		"Deleted user, , succeeded",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if at := w.object("ann").Annotations[v1alpha1.AnnotationAdminConfirmed]; at == "" {
		t.Error("the removal of another administrator has not confirmed ann")
	}
}
