package attribute_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/attribute"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

func definition(name, kind string) *v1alpha1.UserAttribute {
	return &v1alpha1.UserAttribute{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: userattribute.ObjectName(v1alpha1.UserAttributeName(name))},
		Spec:       v1alpha1.UserAttributeSpec{Name: v1alpha1.UserAttributeName(name), Type: v1alpha1.UserAttributeType(kind), Description: name + "."},
	}
}

var definitions = []*v1alpha1.UserAttribute{
	definition("Region", "string"), definition("quota", "number"), definition("internal", "boolean"), definition("stores", "string_array"), definition("levels", "number_array"),
}

func value(t *testing.T, name, kind, text string) v1alpha1.UserAttributeValue {
	t.Helper()
	content, err := userattribute.ParseText(v1alpha1.UserAttributeType(kind), text)
	if err != nil {
		t.Fatal(err)
	}
	return v1alpha1.UserAttributeValue{Name: v1alpha1.UserAttributeName(name), UserAttributeContent: content}
}

func TestExtend(t *testing.T) {
	if attribute.Extend(schema.User, nil) != schema.User {
		t.Error("the type is another one without attributes")
	}
	describe := func(rt *schema.ResourceType) string {
		var all []string
		for _, a := range rt.Extension(schema.UserAttributeURN).Attributes {
			many := ""
			if a.MultiValued {
				many = "[]"
			}
			all = append(all, a.Name+":"+many+string(a.Type))
		}
		return strings.Join(all, " ")
	}
	const own = "Region:string quota:decimal internal:boolean stores:[]string levels:[]decimal"
	extended := attribute.Extend(schema.User, definitions)
	if got := describe(extended); got != own {
		t.Errorf("attributes %q", got)
	}
	if schema.User.Extension(schema.UserAttributeURN) != nil {
		t.Error("the standard type was modified")
	}
	declared := &schema.Schema{ID: strings.ToUpper(schema.UserAttributeURN), Name: "Own", Attributes: []*schema.Attribute{
		{Name: "REGION", Type: schema.Integer}, {Name: "team", Type: schema.String},
	}}
	both := attribute.Extend(schema.User.With(schema.Extension{Schema: declared}), definitions)
	if got := describe(both); got != own+" team:string" || both.Extension(schema.UserAttributeURN).ID != declared.ID || len(both.Extensions) != 2 {
		t.Errorf("with a declared schema: %q of %d extensions", got, len(both.Extensions))
	}
}

func TestReadAndWrite(t *testing.T) {
	s := attribute.Extend(schema.User, definitions).Extension(schema.UserAttributeURN)
	stored := []v1alpha1.UserAttributeValue{
		value(t, "Region", "string", "EU"), value(t, "quota", "string", "of another type"), value(t, "stores", "string_array", "[]"),
		value(t, "gone", "string", "x"), value(t, "levels", "number_array", "[1,2.5]"),
	}
	if diff := cmp.Diff(map[string]any{"Region": "EU", "levels": []any{1.0, 2.5}}, attribute.Read(s, stored)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		values map[string]any
		want   string
	}{
		"unchanged": {
			map[string]any{"Region": "EU", "levels": []any{1.0, 2.5}},
			`[{"name":"Region","string":"EU"},{"name":"quota","string":"of another type"},{"name":"stores","stringArray":[]},{"name":"gone","string":"x"},{"name":"levels","numberArray":["1","2.5"]}]`,
		},
		"removed": {nil, `[{"name":"quota","string":"of another type"},{"name":"stores","stringArray":[]},{"name":"gone","string":"x"}]`},
		"set": {
			map[string]any{"Region": "US", "quota": 5.0, "internal": true, "stores": []any{"a"}},
			`[{"name":"Region","string":"US"},{"name":"quota","number":"5"},{"name":"stores","stringArray":["a"]},{"name":"gone","string":"x"},{"name":"internal","boolean":true}]`,
		},
	} {
		written := append([]v1alpha1.UserAttributeValue{}, stored...)
		if err := attribute.Write(s, &written, c.values); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := json.Marshal(written); string(got) != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestInvalidValuesAreNotWritten(t *testing.T) {
	s := attribute.Extend(schema.User, definitions).Extension(schema.UserAttributeURN)
	for name, c := range map[string]struct {
		values map[string]any
		words  []string
	}{
		"too long":   {map[string]any{"Region": strings.Repeat("x", 513)}, []string{schema.UserAttributeURN + ":Region", "512"}},
		"too large":  {map[string]any{"quota": 1e18}, []string{schema.UserAttributeURN + ":quota", "10^18"}},
		"wrong type": {map[string]any{"internal": "yes"}, []string{":internal", `"yes"`, "true or false"}},
		"too much":   {map[string]any{"stores": list(60, strings.Repeat("x", 100))}, []string{"4096"}},
	} {
		stored := []v1alpha1.UserAttributeValue{value(t, "Region", "string", "EU")}
		err := attribute.Write(s, &stored, c.values)
		for _, word := range c.words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: error %v, want %q", name, err, word)
			}
		}
		if len(stored) != 1 || *stored[0].String != "EU" {
			t.Errorf("%s: %+v", name, stored)
		}
	}
}

func list(n int, item any) []any {
	var items []any
	for range n {
		items = append(items, item)
	}
	return items
}

func TestDefinitions(t *testing.T) {
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1alpha1.UserAttribute{}, 0, toolscache.Indexers{})
	d, err := attribute.NewDefinitions(informer)
	if err != nil {
		t.Fatal(err)
	}
	none := d.Of("acme")
	if len(none.Attributes) != 0 || none != d.Of("other") {
		t.Errorf("attributes %v", none)
	}
	for _, a := range definitions {
		if err := informer.GetIndexer().Add(a); err != nil {
			t.Fatal(err)
		}
	}
	first := d.Of("acme")
	if len(first.Attributes) != len(definitions) || first != d.Of("acme") || len(d.Of("other").Attributes) != 0 {
		t.Errorf("attributes %v", first.Attributes)
	}
	changed := definition("Region", "string")
	if err := informer.GetIndexer().Update(changed); err != nil {
		t.Fatal(err)
	}
	if second := d.Of("acme"); second == first || userattribute.Find(second.Attributes, "Region") != changed {
		t.Errorf("after a change: %v", second.Attributes)
	}
	for _, a := range definitions {
		if err := informer.GetIndexer().Delete(a); err != nil {
			t.Fatal(err)
		}
	}
	if d.Of("acme") != none {
		t.Error("attributes after the deletion of all")
	}
}
