package suite

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
func UniqueName(name string) string { return fmt.Sprintf("%s-%d@rfc.test", name, uniqueCount.Add(1)) }

// query is the query of a URL, of names and values.
func Query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

// find lists what a filter matches; pairs are further names and values of the query.
func (a Caller) Find(t testing.TB, endpoint, filter string, pairs ...string) *Response {
	t.Helper()
	return a.Call(t, "GET", endpoint+Query(append([]string{"filter", filter}, pairs...)...), nil)
}

// search asks the same by POST. members are those of the body besides schemas, as JSON.
func (a Caller) Search(t testing.TB, endpoint, members string) *Response {
	t.Helper()
	return a.Call(t, "POST", endpoint+"/.search", fmt.Sprintf(`{"schemas":[%q],%s}`, SearchURN, members))
}

// quote is a text as a JSON string.
func Quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always encoded
	}
	return string(data)
}

// column is an attribute of the resources of a list, in their order, separated by spaces. Of what
// looks like an address only the part before the @ is there, without the number of unique.
func (a *Response) Column(attribute string) string {
	a.T.Helper()
	var all []string
	for _, r := range a.List("Resources") {
		value, _ := r[attribute].(string)
		value, _, _ = strings.Cut(value, "@")
		all = append(all, value)
	}
	return strings.Join(all, " ")
}

// ids are those of the resources of a list, in their order.
func (a *Response) IDs() []string {
	a.T.Helper()
	all := []string{}
	for _, r := range a.List("Resources") {
		id, _ := r["id"].(string)
		all = append(all, id)
	}
	return all
}

// has checks members of the body against those of a JSON object: each is just that, null is not
// there at all.
func (a *Response) WantMembers(members string) *Response {
	a.T.Helper()
	var want, got map[string]any
	if err := json.Unmarshal([]byte(members), &want); err != nil {
		a.T.Fatalf("the test's own JSON: %v: %s", err, members)
	}
	if err := json.Unmarshal(a.Raw, &got); err != nil {
		a.T.Fatalf("%s: not JSON: %s", a.Request, a.Raw)
	}
	for name, value := range want {
		if _, there := got[name]; value == nil && there || !reflect.DeepEqual(got[name], value) {
			a.T.Errorf("%s: %s is\n%s, want\n%s", a.Request, name, FormatJSON(got[name]), FormatJSON(value))
		}
	}
	return a
}

func FormatJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// names are the members of the body, or of a value in it, by name.
func (a *Response) Names(path string) map[string]bool {
	a.T.Helper()
	object, _ := a.Value(path).(map[string]any)
	all := map[string]bool{}
	for name := range object {
		all[name] = true
	}
	return all
}

// shows checks that the body has these members and no others.
func (a *Response) WantOnly(want ...string) *Response {
	a.T.Helper()
	set := map[string]bool{}
	for _, name := range want {
		set[name] = true
	}
	if got := a.Names(""); !reflect.DeepEqual(got, set) {
		a.T.Errorf("%s: shows %v, want %v: %s", a.Request, got, set, Truncate(a.Raw))
	}
	return a
}

// userOf creates a user of a name that is not taken, and returns its path.
func (a Caller) CreateUserPath(t testing.TB, members ...string) string {
	t.Helper()
	return "/Users/" + a.CreateUser(t, UniqueName("u"), members...)
}

// discard deletes what a test has created without created.
func (a Caller) discard(t testing.TB, endpoint string, created *Response) {
	if created.Status == 201 {
		path := endpoint + "/" + created.Text("id")
		t.Cleanup(func() { _, _ = a.Try(context.WithoutCancel(t.Context()), "DELETE", path, nil) })
	}
}

// post sends a body that may be refused; what it creates is deleted with the test.
func (a Caller) Post(t testing.TB, endpoint string, body any, header ...string) *Response {
	t.Helper()
	got := a.Call(t, "POST", endpoint, body, header...)
	a.discard(t, endpoint, got)
	return got
}

// memberIDs are the values of a group's members.
func (a *Response) MemberIDs() map[string]bool {
	a.T.Helper()
	all := map[string]bool{}
	for _, m := range a.List("members") {
		value, _ := m["value"].(string)
		if all[value] {
			a.T.Errorf("%s: member %s is there twice", a.Request, value)
		}
		all[value] = true
	}
	return all
}

// String is what is shown of an answer that was not expected.
func (a *Response) String() string {
	if a == nil {
		return "no answer"
	}
	return fmt.Sprintf("%s: %d %s", a.Request, a.Status, Truncate(a.Raw))
}

// nextSecond waits until a change has another time than what came before: Kubernetes keeps the
// times of changes to the second.
func NextSecond() {
	if InMemory {
		time.Sleep(2 * time.Millisecond)
		return
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1100 * time.Millisecond)))
}
