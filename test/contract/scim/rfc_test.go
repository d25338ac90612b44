package scim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What the tests of the RFCs have in common.

var uniqueCount atomic.Int64

// unique is a name that no other resource of this run has.
func unique(name string) string { return fmt.Sprintf("%s-%d@rfc.test", name, uniqueCount.Add(1)) }

// query is the query of a URL, of names and values.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

// find lists what a filter matches; pairs are further names and values of the query.
func (a as) find(t testing.TB, endpoint, filter string, pairs ...string) *answer {
	t.Helper()
	return a.call(t, "GET", endpoint+query(append([]string{"filter", filter}, pairs...)...), nil)
}

// search asks the same by POST. members are those of the body besides schemas, as JSON.
func (a as) search(t testing.TB, endpoint, members string) *answer {
	t.Helper()
	return a.call(t, "POST", endpoint+"/.search", fmt.Sprintf(`{"schemas":[%q],%s}`, searchURN, members))
}

// quote is a text as a JSON string.
func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always encoded
	}
	return string(data)
}

// column is an attribute of the resources of a list, in their order, separated by spaces. Of what
// looks like an address only the part before the @ is there, without the number of unique.
func (a *answer) column(attribute string) string {
	a.t.Helper()
	var all []string
	for _, r := range a.list("Resources") {
		value, _ := r[attribute].(string)
		value, _, _ = strings.Cut(value, "@")
		all = append(all, value)
	}
	return strings.Join(all, " ")
}

// ids are those of the resources of a list, in their order.
func (a *answer) ids() []string {
	a.t.Helper()
	all := []string{}
	for _, r := range a.list("Resources") {
		id, _ := r["id"].(string)
		all = append(all, id)
	}
	return all
}

// has checks members of the body against those of a JSON object: each is just that, null is not
// there at all.
func (a *answer) has(members string) *answer {
	a.t.Helper()
	var want, got map[string]any
	if err := json.Unmarshal([]byte(members), &want); err != nil {
		a.t.Fatalf("the test's own JSON: %v: %s", err, members)
	}
	if err := json.Unmarshal(a.raw, &got); err != nil {
		a.t.Fatalf("%s: not JSON: %s", a.what, a.raw)
	}
	for name, value := range want {
		if _, there := got[name]; value == nil && there || !reflect.DeepEqual(got[name], value) {
			a.t.Errorf("%s: %s is\n%s, want\n%s", a.what, name, asJSON(got[name]), asJSON(value))
		}
	}
	return a
}

func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// names are the members of the body, or of a value in it, by name.
func (a *answer) names(path string) map[string]bool {
	a.t.Helper()
	object, _ := a.at(path).(map[string]any)
	all := map[string]bool{}
	for name := range object {
		all[name] = true
	}
	return all
}

// shows checks that the body has these members and no others.
func (a *answer) shows(want ...string) *answer {
	a.t.Helper()
	set := map[string]bool{}
	for _, name := range want {
		set[name] = true
	}
	if got := a.names(""); !reflect.DeepEqual(got, set) {
		a.t.Errorf("%s: shows %v, want %v: %s", a.what, got, set, clip(a.raw))
	}
	return a
}

// userOf creates a user of a name that is not taken, and returns its path.
func (a as) userOf(t testing.TB, members ...string) string {
	t.Helper()
	return "/Users/" + a.user(t, unique("u"), members...)
}

// discard deletes what a test has created without created.
func (a as) discard(t testing.TB, endpoint string, created *answer) {
	if created.status == 201 {
		path := endpoint + "/" + created.text("id")
		t.Cleanup(func() { _, _ = a.try(context.WithoutCancel(t.Context()), "DELETE", path, nil) })
	}
}

// post sends a body that may be refused; what it creates is deleted with the test.
func (a as) post(t testing.TB, endpoint string, body any, header ...string) *answer {
	t.Helper()
	got := a.call(t, "POST", endpoint, body, header...)
	a.discard(t, endpoint, got)
	return got
}

// memberIDs are the values of a group's members.
func (a *answer) memberIDs() map[string]bool {
	a.t.Helper()
	all := map[string]bool{}
	for _, m := range a.list("members") {
		value, _ := m["value"].(string)
		if all[value] {
			a.t.Errorf("%s: member %s is there twice", a.what, value)
		}
		all[value] = true
	}
	return all
}

// String is what is shown of an answer that was not expected.
func (a *answer) String() string {
	if a == nil {
		return "no answer"
	}
	return fmt.Sprintf("%s: %d %s", a.what, a.status, clip(a.raw))
}

// nextSecond waits until a change has another time than what came before: Kubernetes keeps the
// times of changes to the second.
func nextSecond() {
	if inMemory {
		time.Sleep(2 * time.Millisecond)
		return
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1100 * time.Millisecond)))
}
