package schema

import (
	"encoding/json"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func refs(t testing.TB, of *ResourceType, paths ...[3]string) []Ref {
	t.Helper()
	var all []Ref
	for _, p := range paths {
		ref, ok := of.Resolve(p[0], p[1], p[2])
		if !ok {
			t.Fatalf("no %v", p)
		}
		all = append(all, ref)
	}
	return all
}

var sample = &Resource{
	Type: User, ID: "1", Version: "7", Location: "https://x/Users/1", Created: time.Unix(0, 0), LastModified: time.Unix(1, 500_000_000),
	Document: Document{
		"userName": "ada", "active": true, "displayName": "Ada \"the <first>\" \u2028",
		"name":        map[string]any{"givenName": "Ada", "familyName": "L"},
		"emails":      []any{map[string]any{"value": "a@x", "primary": true}},
		"groups":      []any{map[string]any{"value": "g", "type": "indirect"}},
		EnterpriseURN: map[string]any{"manager": map[string]any{"value": "2"}},
	},
}

func locate(kind, id string) string { return "https://x/" + kind + "s/" + id }

func rendered(t testing.TB, r *Resource, p *Projection) map[string]any {
	t.Helper()
	var got map[string]any
	if data := r.Render(nil, p, locate); json.Unmarshal(data, &got) != nil {
		t.Fatalf("not JSON: %s", data)
	}
	return got
}

func TestRender(t *testing.T) {
	want := map[string]any{
		"schemas": []any{UserURN, EnterpriseURN}, "id": "1", "userName": "ada", "active": true, "displayName": "Ada \"the <first>\" \u2028",
		"name":        map[string]any{"givenName": "Ada", "familyName": "L"},
		"emails":      []any{map[string]any{"value": "a@x", "primary": true}},
		"groups":      []any{map[string]any{"value": "g", "type": "indirect", "$ref": "https://x/Groups/g"}},
		EnterpriseURN: map[string]any{"manager": map[string]any{"value": "2", "$ref": "https://x/Users/2"}},
		"meta": map[string]any{
			"resourceType": "User", "created": "1970-01-01T00:00:00Z", "lastModified": "1970-01-01T00:00:01.5Z", "location": "https://x/Users/1", "version": `W/"7"`,
		},
	}
	if diff := cmp.Diff(want, rendered(t, sample, nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRenderProjection checks that attributes that are always returned cannot be excluded (RFC 7644
// section 3.9).
func TestRenderProjection(t *testing.T) {
	schemas := []any{UserURN, EnterpriseURN}
	for name, c := range map[string]struct {
		p    *Projection
		want map[string]any
	}{
		"one attribute": {&Projection{Include: refs(t, User, [3]string{"", "userName", ""})}, map[string]any{"schemas": schemas, "id": "1", "userName": "ada"}},
		"a sub-attribute": {
			&Projection{Include: refs(t, User, [3]string{"", "name", "givenName"})},
			map[string]any{"schemas": schemas, "id": "1", "name": map[string]any{"givenName": "Ada"}},
		},
		"an extension": {
			&Projection{Include: refs(t, User, [3]string{EnterpriseURN, "", ""})},
			map[string]any{"schemas": schemas, "id": "1", EnterpriseURN: map[string]any{"manager": map[string]any{"value": "2", "$ref": "https://x/Users/2"}}},
		},
		"all but most": {
			&Projection{Exclude: refs(t, User, [3]string{"", "id", ""}, [3]string{"", "emails", ""}, [3]string{"", "groups", ""}, [3]string{"", "meta", ""}, [3]string{"", "displayName", ""},
				[3]string{"", "name", "familyName"}, [3]string{EnterpriseURN, "", ""}, [3]string{"", "active", ""})},
			map[string]any{"schemas": schemas, "id": "1", "userName": "ada", "name": map[string]any{"givenName": "Ada"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rendered(t, sample, c.p)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// list is a Set that implements only the methods used by Render.
type list struct {
	Set
	values []string
}

func (l *list) Len() int { return len(l.values) }

func (l *list) All() iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, v := range l.values {
			if !yield(map[string]any{"value": v, "type": "User"}) {
				return
			}
		}
	}
}

func TestRenderSet(t *testing.T) {
	g := &Resource{Type: Group, ID: "g", Document: Document{"displayName": "G", "members": &list{values: []string{"1"}}}}
	if diff := cmp.Diff([]any{map[string]any{"value": "1", "type": "User", "$ref": "https://x/Users/1"}}, rendered(t, g, nil)["members"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	g.Document["members"] = &list{}
	if got, ok := rendered(t, g, nil)["members"]; ok {
		t.Errorf("members of an empty Set: %v", got)
	}
}

// referenceList is References with any elements.
type referenceList struct {
	Set
	elements []ReferenceValue
}

func (l *referenceList) All() iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, r := range l.elements {
			element := map[string]any{}
			for name, text := range map[string]string{"value": r.Value, "type": r.Type, "display": r.Display} {
				if text != "" {
					element[name] = text
				}
			}
			if !yield(element) {
				return
			}
		}
	}
}

func (l *referenceList) AllReferences() iter.Seq[ReferenceValue] { return slices.Values(l.elements) }

// onlySet hides that a Set is References.
type onlySet struct{ Set }

// TestRenderReferences checks that References are rendered as Sets are, whatever is selected.
func TestRenderReferences(t *testing.T) {
	l := &referenceList{elements: []ReferenceValue{
		{Value: "1", Type: "User", Display: "A"}, {Value: "2", Type: "Group"}, {Value: "a \"b\"", Type: "Robot", Display: "é\u2028<"}, {Type: "User"}, {Value: "3"},
	}}
	for name, p := range map[string]*Projection{
		"all": nil, "values": {Include: refs(t, Group, [3]string{"", "members", "value"})}, "no URLs": {Exclude: refs(t, Group, [3]string{"", "members", "$ref"})},
		"no names": {Exclude: refs(t, Group, [3]string{"", "members", "display"})}, "none": {Exclude: refs(t, Group, [3]string{"", "members", ""})},
	} {
		for of, locate := range map[string]Locate{"": locate, ", without groups": func(kind, id string) string {
			if kind == "Group" {
				return ""
			}
			return locate(kind, id)
		}, ", without URLs": nil} {
			render := func(members Set) string {
				return string((&Resource{Type: Group, ID: "g", Document: Document{"displayName": "G", "members": members}}).Render(nil, p, locate))
			}
			if diff := cmp.Diff(render(onlySet{l}), render(l)); diff != "" {
				t.Errorf("%s%s (-set +references):\n%s", name, of, diff)
			}
		}
	}
}

func (l *referenceList) Len() int { return len(l.elements) }

// TestRenderedSize checks that a group with many members is rendered into one buffer.
func TestRenderedSize(t *testing.T) {
	l := &referenceList{}
	for range 1000 {
		l.elements = append(l.elements, ReferenceValue{Value: "01a203d5-b0a3-74f1-97bb-283c13d560a5", Type: "User", Display: "Given0000000 Family0000000"})
	}
	g := &Resource{Type: Group, ID: "g", Document: Document{"displayName": "G", "members": l}}
	buffer := make([]byte, 0, g.RenderedSize())
	at := func(kind, id string) string { return "https://acme.example.com/api/scim/v2/" + kind + "s/" + id }
	if rendered := g.Render(buffer, nil, at); cap(rendered) != cap(buffer) || cap(buffer) > 2*len(rendered) {
		t.Errorf("%d bytes, the estimate is %d", len(rendered), cap(buffer))
	}
}

func BenchmarkRender(b *testing.B) {
	for name, p := range map[string]*Projection{"all": nil, "userName": {Include: refs(b, User, [3]string{"", "userName", ""})}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var buffer []byte
			for b.Loop() {
				buffer = sample.Render(buffer[:0], p, locate)
			}
		})
	}
}
