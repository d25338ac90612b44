package scimtest

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

var uniqueCount atomic.Int64

// UniqueName returns a name that is unique in this run.
func UniqueName(name string) string { return fmt.Sprintf("%s-%d@rfc.test", name, uniqueCount.Add(1)) }

// Query returns the query of a URL from names and values.
func Query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

// Find lists the resources that match a filter. pairs are additional query parameters.
func (a Caller) Find(t testing.TB, endpoint, filter string, pairs ...string) *Response {
	t.Helper()
	return a.Call(t, "GET", endpoint+Query(append([]string{"filter", filter}, pairs...)...), nil)
}

// Search sends a search request. members are the members of the body besides schemas, as JSON.
func (a Caller) Search(t testing.TB, endpoint, members string) *Response {
	t.Helper()
	return a.Call(t, "POST", endpoint+"/.search", fmt.Sprintf(`{"schemas":[%q],%s}`, SearchURN, members))
}

// Quote returns a text as a JSON string.
func Quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // cannot happen: strings can always be encoded
	}
	return string(data)
}

// Column returns an attribute of all resources of a list, separated by spaces, without the domain of e-mail
// addresses.
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

// IDs returns the ids of the resources of a list.
func (a *Response) IDs() []string {
	a.T.Helper()
	all := []string{}
	for _, r := range a.List("Resources") {
		id, _ := r["id"].(string)
		all = append(all, id)
	}
	return all
}

// WantMembers checks members of the body against a JSON object. null means that the member is absent.
func (a *Response) WantMembers(members string) *Response {
	a.T.Helper()
	var want, got map[string]any
	if err := json.Unmarshal([]byte(members), &want); err != nil {
		a.T.Fatalf("invalid JSON in the test: %v: %s", err, members)
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

// FormatJSON returns a value as JSON for messages.
func FormatJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Names returns the names of the members of the body or of an object in it.
func (a *Response) Names(path string) map[string]bool {
	a.T.Helper()
	object, _ := a.Value(path).(map[string]any)
	all := map[string]bool{}
	for name := range object {
		all[name] = true
	}
	return all
}

// WantOnly checks that the body has exactly these members.
func (a *Response) WantOnly(want ...string) *Response {
	a.T.Helper()
	set := map[string]bool{}
	for _, name := range want {
		set[name] = true
	}
	if got := a.Names(""); !reflect.DeepEqual(got, set) {
		a.T.Errorf("%s: members %v, want %v: %s", a.Request, got, set, Truncate(a.Raw))
	}
	return a
}

// CreateUserPath creates a user with a unique name and returns its path.
func (a Caller) CreateUserPath(t testing.TB, members ...string) string {
	t.Helper()
	return "/Users/" + a.CreateUser(t, UniqueName("u"), members...)
}

// DeleteAfter deletes a created resource after the test.
func (a Caller) discard(t testing.TB, endpoint string, created *Response) {
	if created.Status == 201 {
		path := endpoint + "/" + created.Text("id")
		t.Cleanup(func() { _, _ = a.Try(context.WithoutCancel(t.Context()), "DELETE", path, nil) })
	}
}

// Post sends a POST that may fail. A created resource is deleted after the test.
func (a Caller) Post(t testing.TB, endpoint string, body any, header ...string) *Response {
	t.Helper()
	got := a.Call(t, "POST", endpoint, body, header...)
	a.discard(t, endpoint, got)
	return got
}

// MemberIDs returns the values of a group's members.
func (a *Response) MemberIDs() map[string]bool {
	a.T.Helper()
	all := map[string]bool{}
	for _, m := range a.List("members") {
		value, _ := m["value"].(string)
		if all[value] {
			a.T.Errorf("%s: duplicate member %s", a.Request, value)
		}
		all[value] = true
	}
	return all
}

// String returns a description for messages of tests.
func (a *Response) String() string {
	if a == nil {
		return "no response"
	}
	return fmt.Sprintf("%s: %d %s", a.Request, a.Status, Truncate(a.Raw))
}

// NextSecond waits until the timestamp of a change differs from those before: Kubernetes stores times in
// seconds.
func NextSecond() {
	if InMemory {
		time.Sleep(2 * time.Millisecond)
		return
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1100 * time.Millisecond)))
}
