package filter

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

func resolve(t testing.TB, s string, rt *schema.ResourceType) schema.Ref {
	t.Helper()
	p, err := ParseAttribute(s)
	if err != nil {
		t.Fatal(err)
	}
	ref, ok := p.Resolve(rt)
	if !ok {
		t.Fatalf("%s is not an attribute", s)
	}
	return ref
}

// TestSort checks the order of resources (RFC 7644 section 3.4.2.3).
func TestSort(t *testing.T) {
	email := func(value string, primary bool) map[string]any {
		return map[string]any{"value": value, "primary": primary}
	}
	user := func(name string, value any) schema.Document { return schema.Document{name: value} }
	tests := []struct {
		by   string
		of   *schema.ResourceType
		want []schema.Document // in ascending order
	}{
		{"title", schema.User, []schema.Document{user("title", "alpha"), user("title", "Beta"), user("title", "gamma"), {}}},
		{"serial", device, []schema.Document{user("serial", "Beta"), user("serial", "Gamma"), user("serial", "alpha"), {}}},
		{"slots", device, []schema.Document{user("slots", int64(-5)), user("slots", int64(9)), user("slots", int64(10)), {}}},
		{"slots", device, []schema.Document{user("slots", int64(9007199254740992)), user("slots", int64(9007199254740993))}},
		{"weight", device, []schema.Document{user("weight", -1.5), user("weight", 0.0), user("weight", 9.5), {}}},
		{"active", schema.User, []schema.Document{user("active", false), user("active", true), {}}},
		{"bought", device, []schema.Document{user("bought", "2024-01-01T00:00:00+02:00"), user("bought", "2023-12-31T23:00:00Z"), user("bought", "2024-01-01T00:00:00.5Z"), {}}},
		{"name.familyName", schema.User, []schema.Document{user("name", map[string]any{"familyName": "a"}), user("name", map[string]any{"familyName": "B"}), user("name", map[string]any{"givenName": "0"})}},
		{"emails", schema.User, []schema.Document{
			user("emails", []any{email("z", false), email("A", true)}),
			user("emails", []any{email("b", false), email("a", false)}),
			user("emails", []any{email("c", true)}),
			user("emails", []any{}),
		}},
		{"tags", device, []schema.Document{user("tags", []any{"a", "z"}), user("tags", []any{"B", "a"}), {}}},
		{"ports.uses", device, []schema.Document{user("ports", []any{map[string]any{"uses": []any{"a"}}}), user("ports", []any{map[string]any{"uses": []any{"b"}}})}},
		{schema.EnterpriseURN + ":manager", schema.User, []schema.Document{
			user(schema.EnterpriseURN, map[string]any{"manager": map[string]any{"value": "1"}}),
			user(schema.EnterpriseURN, map[string]any{"manager": map[string]any{"value": "2"}}), {},
		}},
	}
	for _, test := range tests {
		ref := resolve(t, test.by, test.of)
		if err := Sortable(ref); err != nil {
			t.Errorf("%s: %v", test.by, err)
		}
		for i, a := range test.want {
			for j, b := range test.want {
				if got, want := Compare(KeyOf(a, ref), KeyOf(b, ref)), slices.Compare([]int{i}, []int{j}); got != want {
					t.Errorf("%s: compared %v with %v: got %d, want %d", test.by, a, b, got, want)
				}
			}
		}
	}
}

func TestSortKeyAsJSON(t *testing.T) {
	src := bjensen()
	for by, want := range map[string]string{
		"userName":     `{"p":true,"t":"bjensen@example.com"}`,
		"active":       `{"p":true,"i":1}`,
		"meta.created": `{"p":true,"t":"2010-01-23T04:56:22.000000000Z"}`,
		"locale":       `{}`,
		"nickName":     `{}`,
	} {
		key := KeyOf(src, resolve(t, by, schema.User))
		data, err := json.Marshal(key)
		if err != nil || string(data) != want {
			t.Errorf("%s: got %s, %v, want %s", by, data, err, want)
		}
		var again SortKey
		if err := json.Unmarshal(data, &again); err != nil || again != key {
			t.Errorf("%s: got %v, %v, want %v", by, again, err, key)
		}
	}
}

func TestSortable(t *testing.T) {
	for by, want := range map[string]string{
		"name": "name has sub-attributes", "addresses": "addresses has sub-attributes", "meta": "meta has sub-attributes",
		"groups": "groups is a list of references", "groups.value": "groups.value is a list of references",
		schema.EnterpriseURN: "is a schema", "meta.location": "meta.location is a URL", schema.EnterpriseURN + ":manager.$ref": "manager.$ref is a URL",
	} {
		wantError(t, Sortable(resolve(t, by, schema.User)), 400, scimerror.InvalidPath, want)
	}
	wantError(t, Sortable(resolve(t, "password", schema.User)), 403, scimerror.Sensitive, "password cannot be sorted by")
	wantError(t, Sortable(resolve(t, "key", device)), 403, scimerror.Sensitive, "cannot be sorted by")

	members := resolve(t, "members", schema.Group)
	wantError(t, Sortable(members), 400, scimerror.InvalidPath, "members is a list of references")
	set := &memberSet{ids: []string{"u1"}}
	if key := KeyOf(schema.Document{"members": set}, members); key.Present || set.alls > 0 {
		t.Errorf("got %v", key)
	}
	// Without Sortable there is no key, and no panic.
	for _, by := range strings.Fields("name meta " + schema.EnterpriseURN) {
		if key := KeyOf(bjensen(), resolve(t, by, schema.User)); key.Present {
			t.Errorf("%s: got %v", by, key)
		}
	}
}
