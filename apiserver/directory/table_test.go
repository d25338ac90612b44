package directory

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/extension"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

// fill sets every field of a struct to a distinct value.
func fill(v reflect.Value, next *int) {
	switch v.Kind() {
	case reflect.String:
		*next++
		v.SetString(fmt.Sprint("value ", *next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		*next++
		v.SetInt(int64(*next))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), next)
		fill(v.Index(1), next)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), next)
			}
		}
	}
}

func fullUser() *v1alpha1.ScimUser {
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "u1", UID: "12345678-aaaa"}}
	next := 0
	fill(reflect.ValueOf(&u.Spec).Elem(), &next)
	u.Spec.Active, u.Spec.DeprovisionTime = new(false), new(metav1.Unix(1, 0)) // active is the default
	u.Spec.Extensions = []v1alpha1.ScimExtension{
		{Schema: "urn:other:unknown", Attributes: apiextensionsv1.JSON{Raw: []byte(`{"kept":12345678901234567890}`)}},
		{Schema: customURN, Attributes: apiextensionsv1.JSON{Raw: []byte(
			`{"badge":"b","level":7,"rate":1.5,"remote":false,"since":"2026-01-31T12:00:00Z","page":"https://x","teams":["a","b"],"former":{"x":1}}`)}},
	}
	u.Spec.Attributes = nil
	for i, text := range []string{"EU", "-2.5", "false", `["a","b"]`, "[1,2.5]"} {
		content, err := userattribute.ParseText(userattribute.Types[i], text)
		if err != nil {
			panic(err)
		}
		u.Spec.Attributes = append(u.Spec.Attributes, v1alpha1.UserAttributeValue{Name: attributeName(i), UserAttributeContent: content})
	}
	return u
}

// attributeName returns the name of the user attribute with the i-th type. They are in alphabetical order.
func attributeName(i int) v1alpha1.UserAttributeName {
	return v1alpha1.UserAttributeName(fmt.Sprintf("a%d_%s", i, userattribute.Types[i]))
}

// addAttributes adds a user attribute of each type to the account.
func (m *memory) addAttributes(t testing.TB, namespace string) {
	t.Helper()
	for i, kind := range userattribute.Types {
		a := &v1alpha1.UserAttribute{Spec: v1alpha1.UserAttributeSpec{Name: attributeName(i), Type: kind, Description: "Of each user."}}
		a.Namespace, a.Name = namespace, userattribute.ObjectName(a.Spec.Name)
		if err := m.indexers["Attribute"].Add(a); err != nil {
			t.Fatal(err)
		}
	}
}

func inMemory(t testing.TB) (*memory, *Tenant, *view) {
	t.Helper()
	m := newMemory(t)
	m.addAttributes(t, "acme")
	tenant := m.Of(accountOf("acme"))
	_, v := tenant.of(t.Context(), tenant.user, nil)
	return m, tenant, v
}

// TestUserAttributesRoundTrip checks that every field of a user is an attribute, that every writable
// attribute is a field, and that the conversion round-trips.
func TestUserAttributesRoundTrip(t *testing.T) {
	m, tenant, v := inMemory(t)
	u := fullUser()
	d := m.users.resource(v, u).Document
	shown := d.Clone()
	for _, name := range []string{AttributeAdmin, AttributeSettings, AttributeRoles} {
		if d[name] == nil {
			t.Errorf("%s is missing", name)
		}
		delete(shown, name) // in no schema
	}
	checkAttributes(t, "", tenant.user.Core.Attributes, shown)
	for _, e := range tenant.user.Extensions {
		values, _ := d[e.Schema.ID].(map[string]any)
		checkAttributes(t, e.Schema.ID+":", e.Schema.Attributes, values)
	}
	if _, shown := d["urn:other:unknown"]; shown {
		t.Error("an undeclared schema is visible")
	}
	made := &v1alpha1.ScimUser{}
	now := time.Now()
	made.Spec.Extensions = []v1alpha1.ScimExtension{u.Spec.Extensions[0]}
	if err := m.users.writeSpec(v, made, d); err != nil {
		t.Fatal(err)
	}
	want := u.DeepCopy()
	if when := made.Spec.DeprovisionTime; when == nil || when.Time.Before(now) {
		t.Errorf("deactivated at %s", when)
	}
	want.Spec.DeprovisionTime = made.Spec.DeprovisionTime
	want.Spec.Enterprise.Manager.DisplayName = "" // read-only
	want.Spec.AccountRoles = nil                  // read-only
	want.Spec.Extensions[1].Attributes.Raw = []byte(`{"badge":"b","level":7,"page":"https://x","rate":1.5,"remote":false,"since":"2026-01-31T12:00:00Z","teams":["a","b"]}`)
	if diff := cmp.Diff(want.Spec, made.Spec); diff != "" {
		t.Errorf("written from the document (-want +got):\n%s", diff)
	}
	if err := m.users.writeSpec(v, made, schema.Document{}); err != nil {
		t.Fatal(err)
	}
	empty := v1alpha1.ScimUserSpec{
		Active: want.Spec.Active, DeprovisionTime: want.Spec.DeprovisionTime, Extensions: []v1alpha1.ScimExtension{u.Spec.Extensions[0]},
		Admin: want.Spec.Admin, Settings: want.Spec.Settings, // which no SCIM document has
	}
	if diff := cmp.Diff(empty, made.Spec); diff != "" {
		t.Errorf("written from an empty document (-want +got):\n%s", diff)
	}
}

func checkAttributes(t *testing.T, path string, attributes []*schema.Attribute, values map[string]any) {
	t.Helper()
	for _, a := range attributes {
		value, ok := values[a.Name]
		if derived := a.Name == "groups" || a.Name == "$ref"; derived || a.Hidden {
			continue
		}
		if !ok {
			t.Errorf("%s is missing", path+a.Name)
			continue
		}
		if elements, many := value.([]any); many && a.Type == schema.Complex {
			value = elements[0]
		}
		if element, ok := value.(map[string]any); ok {
			checkAttributes(t, path+a.Name+".", a.SubAttributes, element)
		}
	}
	others := []string{"externalId", schema.EnterpriseURN, customURN, schema.UserAttributeURN}
	for name := range values {
		if !slices.ContainsFunc(attributes, func(a *schema.Attribute) bool { return a.Name == name }) && !slices.Contains(others, path+name) {
			t.Errorf("%s is not in a schema", path+name)
		}
	}
}

// TestWriteIsIdempotent checks that writing a document that was read changes nothing, in any notation.
func TestWriteIsIdempotent(t *testing.T) {
	m, _, v := inMemory(t)
	cases := map[string]v1alpha1.ScimUserSpec{
		"full":            fullUser().Spec,
		"empty parts":     {UserName: "u", Name: &v1alpha1.ScimName{}, Enterprise: &v1alpha1.ScimEnterprise{Manager: &v1alpha1.ScimManager{}}, Emails: []v1alpha1.ScimMultiValue{}},
		"empty element":   {UserName: "u", Emails: []v1alpha1.ScimMultiValue{{}, {Value: "x"}}},
		"active absent":   {UserName: "u"},
		"not primary":     {UserName: "u", Emails: []v1alpha1.ScimMultiValue{{Value: "x", Primary: new(false)}}},
		"extension spelt": {UserName: "u", Extensions: []v1alpha1.ScimExtension{{Schema: "URN:ACME:params:scim:schemas:custom:2.0:user", Attributes: apiextensionsv1.JSON{Raw: []byte(`{ "LEVEL": 7, "level2": 8 }`)}}}},
		"wrong types":     {UserName: "u", Extensions: []v1alpha1.ScimExtension{{Schema: customURN, Attributes: apiextensionsv1.JSON{Raw: []byte(`{"level":"seven","badge":3}`)}}}},
		"no object":       {UserName: "u", Extensions: []v1alpha1.ScimExtension{{Schema: customURN, Attributes: apiextensionsv1.JSON{Raw: []byte(`[1]`)}}}},
	}
	for name, spec := range cases {
		t.Run(name, func(t *testing.T) {
			u := &v1alpha1.ScimUser{Spec: spec}
			after := u.DeepCopy()
			if err := m.users.writeSpec(v.forEditing(), after, m.users.resource(v, u).Document); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(u.Spec, after.Spec); diff != "" {
				t.Errorf("changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestUndeclaredAttributesAreKept checks that a write keeps undeclared extensions and attributes.
func TestUndeclaredAttributesAreKept(t *testing.T) {
	m, _, v := inMemory(t)
	u := fullUser()
	d := m.users.resource(v, u).Document
	delete(d, customURN)
	if err := m.users.writeSpec(v, u, d); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range u.Spec.Extensions {
		got = append(got, e.Schema+string(e.Attributes.Raw))
	}
	want := []string{`urn:other:unknown{"kept":12345678901234567890}`, customURN + `{"former":{"x":1}}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestItemMatchesResource checks that a filter reads the same values of an object as its resource has.
func TestItemMatchesResource(t *testing.T) {
	m, tenant, v := inMemory(t)
	u := fullUser()
	m.put(u)
	m.put(&v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "g1"}, Spec: v1alpha1.ScimGroupSpec{
		DisplayName: "Group", Members: []v1alpha1.ScimMember{{Value: "u1"}},
	}})
	i := &item[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec]{c: m.users, v: v, object: u}
	r := i.Resource()
	check := func(ref schema.Ref) {
		t.Helper()
		if diff := cmp.Diff(r.Get(ref), i.Get(ref)); diff != "" {
			t.Errorf("%s (-resource +item):\n%s", ref, diff)
		}
		if i.Get(ref) == nil && ref.Attribute != nil && !ref.Attribute.Hidden {
			t.Errorf("%s has no value", ref)
		}
	}
	for _, name := range []string{"id", "schemas", "meta", "externalId"} {
		ref, _ := tenant.user.Resolve("", name, "")
		check(ref)
	}
	for _, a := range tenant.user.Core.Attributes {
		check(schema.Ref{Attribute: a})
	}
	for _, e := range tenant.user.Extensions {
		check(schema.Ref{Extension: e.Schema.ID})
		for _, a := range e.Schema.Attributes {
			check(schema.Ref{Extension: e.Schema.ID, Attribute: a})
		}
	}
	bare := &item[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec]{c: m.users, v: v, object: &v1alpha1.ScimUser{}}
	for _, urn := range []string{schema.EnterpriseURN, customURN} {
		if got := bare.Get(schema.Ref{Extension: urn}); got != nil {
			t.Errorf("%s of nothing: %v", urn, got)
		}
	}
}

func TestManager(t *testing.T) {
	m, _, v := inMemory(t)
	boss := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "boss"}, Spec: v1alpha1.ScimUserSpec{UserName: "boss", DisplayName: "The Boss"}}
	m.put(boss)
	e := &v1alpha1.ScimEnterprise{Manager: &v1alpha1.ScimManager{Value: "boss"}}
	if diff := cmp.Diff(map[string]any{"value": "boss", "displayName": "The Boss"}, manager(v, "", e)); diff != "" {
		t.Errorf("name of the manager's user (-want +got):\n%s", diff)
	}
	setManager(v, "", e, manager(v, "", e))
	if e.Manager.DisplayName != "" {
		t.Error("a derived name was stored")
	}
	e.Manager.DisplayName = "Chief"
	if got := manager(v, "", e).(map[string]any)["displayName"]; got != "Chief" {
		t.Errorf("got %v, want the stored name", got)
	}
	setManager(v, "", e, map[string]any{"value": "other"})
	if diff := cmp.Diff(&v1alpha1.ScimManager{Value: "other"}, e.Manager); diff != "" {
		t.Errorf("another manager (-want +got):\n%s", diff)
	}
}

func TestDeclaredSchemas(t *testing.T) {
	account := accountOf("acme")
	account.Spec.Scim.Schemas = append(account.Spec.Scim.Schemas,
		v1alpha1.ScimSchema{ID: "URN:ACME:params:scim:schemas:custom:2.0:USER", ResourceType: membership.TypeUser, Attributes: []v1alpha1.ScimAttribute{{Name: "x", Type: "string"}}},
		v1alpha1.ScimSchema{ID: "urn:acme:team", ResourceType: membership.TypeGroup, Attributes: []v1alpha1.ScimAttribute{
			{Name: "code", Type: "string", CaseExact: new(true), Required: new(true), Immutable: new(true), Description: "Code."},
			{Name: "wiki", Type: "reference"}, {Name: "chat", Type: "reference", CaseExact: new(false)},
		}})
	user, group := extension.ResourceTypes(account)
	if len(user.Extensions) != 2 || len(group.Extensions) != 1 || len(schema.User.Extensions) != 1 {
		t.Fatalf("%d and %d extensions", len(user.Extensions), len(group.Extensions))
	}
	want := `{"id":"urn:acme:team","name":"team","description":"","attributes":[` +
		`{"name":"code","type":"string","multiValued":false,"description":"Code.","required":true,"caseExact":true,"mutability":"immutable","returned":"default","uniqueness":"none"},` +
		`{"name":"wiki","type":"reference","multiValued":false,"description":"","required":false,"caseExact":true,"mutability":"readWrite","returned":"default","uniqueness":"none","referenceTypes":["external"]},` +
		`{"name":"chat","type":"reference","multiValued":false,"description":"","required":false,"caseExact":false,"mutability":"readWrite","returned":"default","uniqueness":"none","referenceTypes":["external"]}]}`
	got, _ := json.Marshal(group.Extensions[0].Schema)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTenantsAreCached(t *testing.T) {
	m := newMemory(t)
	account := accountOf("acme")
	first := m.Of(account)
	if m.Of(account.DeepCopy()) != first || first.ResourceTypes()[0] != m.Of(account).ResourceTypes()[0] {
		t.Error("the same account has another tenant")
	}
	account.Generation++
	account.Spec.Scim = nil
	second := m.Of(account)
	if second == first || second.ResourceTypes()[0] != schema.User {
		t.Error("a changed account has its previous tenant")
	}
	m.addAttributes(t, "acme")
	if third := m.Of(account); third == second || third.ResourceTypes()[0].Extension(schema.UserAttributeURN) == nil {
		t.Error("an account with other user attributes has its previous tenant")
	}
}

// TestResourcesOfAPageOneByOne: resources that are used one after the other, in the same memory, are those of the page. They
// differ in what they have, so that values of the previous one would show.
func TestResourcesOfAPageOneByOne(t *testing.T) {
	m := newMemory(t)
	tenant := m.Of(accountOf("acme"))
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "acme", Name: name, UID: types.UID(name + "-12345678"), Generation: 1, CreationTimestamp: metav1.Unix(1_700_000_000, 0)}
	}
	full := v1alpha1.ScimUserSpec{
		UserName: "full@example.com", ExternalID: "1", DisplayName: "Full", Title: "Engineer", Active: new(false),
		Name:         &v1alpha1.ScimName{GivenName: "Given", FamilyName: "Family", MiddleName: "M"},
		Emails:       []v1alpha1.ScimMultiValue{{Value: "full@example.com", Type: "work", Primary: new(true)}, {Value: "other@example.com", Display: "Other"}},
		Addresses:    []v1alpha1.ScimAddress{{Country: "GB", Locality: "London"}},
		PhoneNumbers: []v1alpha1.ScimMultiValue{{Value: "+44 20", Type: "work"}},
		Enterprise:   &v1alpha1.ScimEnterprise{EmployeeNumber: "7", Manager: &v1alpha1.ScimManager{Value: "u2"}},
	}
	for i, spec := range []v1alpha1.ScimUserSpec{
		full,
		{UserName: "bare@example.com"},
		{UserName: "named@example.com", DisplayName: "Named", Name: &v1alpha1.ScimName{GivenName: "Only"}, Emails: []v1alpha1.ScimMultiValue{{Type: "home"}}},
		{UserName: "employee@example.com", Enterprise: &v1alpha1.ScimEnterprise{Department: "Tours"}},
	} {
		m.put(&v1alpha1.ScimUser{ObjectMeta: object(fmt.Sprint("u", i)), Spec: spec})
	}
	for i, members := range [][]v1alpha1.ScimMember{{{Value: "u0"}, {Value: "u1"}}, nil, {{Value: "u0"}, {Value: "g0", Type: "Group"}}} {
		m.put(&v1alpha1.ScimGroup{ObjectMeta: object(fmt.Sprint("g", i)), Spec: v1alpha1.ScimGroupSpec{DisplayName: fmt.Sprint("Group ", i), Members: members}})
	}
	locate := func(kind, id string) string { return "/" + kind + "s/" + id }
	for _, rt := range []*schema.ResourceType{tenant.user, tenant.group} {
		for _, q := range []scim.Query{{Count: 100}, {Start: 1, Count: 2}, {Count: 100, Filter: query(t, rt, "id pr").Filter}} {
			together, err := tenant.ListResources(t.Context(), rt, &q)
			if err != nil || len(together.Resources) < 2 {
				t.Fatal(together, err)
			}
			var want, got []string
			for _, r := range together.Resources {
				want = append(want, r.ETag()+string(r.Render(nil, nil, locate)))
			}
			q.Use = func(r *schema.Resource) error {
				got = append(got, r.ETag()+string(r.Render(nil, nil, locate)))
				return nil
			}
			oneByOne, err := tenant.ListResources(t.Context(), rt, &q)
			if diff := cmp.Diff(want, got); diff != "" || err != nil || len(oneByOne.Resources) > 0 {
				t.Errorf("%s: %v (-together +one by one):\n%s", rt.Name, err, diff)
			}
			together.Resources = nil
			if diff := cmp.Diff(together, oneByOne); diff != "" {
				t.Errorf("%s: (-together +one by one):\n%s", rt.Name, diff)
			}
		}
	}
}
