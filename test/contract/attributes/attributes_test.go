package attributes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const (
	attributesPath = "/api/v1/user-attributes/" // as the command-line client sends it
	valuesPath     = "/api/v1/user-attribute-values/"
	usersPath      = "/api/scim/v2/Users/"
	urn            = "urn:cube:params:1.0:UserAttribute"
)

func TestAttributesAreManagedOverREST(t *testing.T) {
	quota := acme.attribute(t, map[string]any{"name": "Max_Quota", "type": "number", "displayName": "Quota", "description": "Rows.", "defaultValue": "2.50"})
	regions := acme.attribute(t, map[string]any{"name": "regions", "type": "string_array", "defaultValue": `["EU"]`})
	list := acme.call(t, acme.admin, "GET", attributesPath, nil).Is(200)
	list.Want(map[string]string{
		"count": "2", "items.length": "2", "data.length": "2", "items.0.name": `"regions"`, "items.1.id": quota, "items.1.name": `"Max_Quota"`,
		"items.1.type": `"number"`, "items.1.displayName": `"Quota"`, "items.1.description": `"Rows."`, "items.1.defaultValue": `"2.5"`,
		"items.0.defaultValue": `"[\"EU\"]"`, "pageInfo.hasNextPage": "false",
	})
	for query, want := range map[string]string{
		"?name=max_quota": "1", "?type=string_array": "1", "?type=boolean": "0", "?name=none": "0", "?first=1": "1", "?offset=0&limit=5": "2", "?type=": "2",
	} {
		acme.call(t, acme.admin, "GET", attributesPath+query, nil).Is(200).Want(map[string]string{"items.length": want})
	}
	next, _ := acme.call(t, acme.admin, "GET", attributesPath+"?first=1", nil).Is(200).At("pageInfo.endCursor").(string)
	acme.call(t, acme.admin, "GET", attributesPath+"?first=1&after="+next, nil).Is(200).Want(map[string]string{"items.0.id": quota, "pageInfo.hasPreviousPage": "true"})
	acme.call(t, acme.admin, "PUT", attributesPath+quota, map[string]any{"displayName": "Limit"}).Is(200).
		Want(map[string]string{"displayName": `"Limit"`, "defaultValue": `"2.5"`, "description": `"Rows."`})
	acme.call(t, acme.admin, "PUT", attributesPath+quota, map[string]any{"defaultValue": nil}).Is(200).Want(map[string]string{"defaultValue": "null"})
	acme.call(t, acme.admin, "PUT", attributesPath+quota, map[string]any{"defaultValue": "many"}).Rejected(400, "defaultValue", "many", "number")
	acme.call(t, acme.admin, "PUT", attributesPath+quota, map[string]any{"type": "string"}).Rejected(400, "type")
	globex.call(t, globex.admin, "PUT", attributesPath+regions, map[string]any{}).Rejected(404, regions)
	globex.call(t, globex.admin, "GET", attributesPath, nil).Is(200).Want(map[string]string{"items.length": "0"})
	acme.call(t, acme.admin, "DELETE", attributesPath+regions, nil).Is(200)
	acme.call(t, acme.admin, "DELETE", attributesPath+regions, nil).Rejected(404, regions)
	acme.call(t, acme.admin, "GET", attributesPath, nil).Is(200).Want(map[string]string{"items.length": "1"})
}

// Changes of attributes and values are in the audit log of the account, with what has changed.
func TestChangesAreRecorded(t *testing.T) {
	id := acme.attribute(t, map[string]any{"name": "floor", "type": "string"})
	acme.call(t, acme.admin, "PUT", attributesPath+id, map[string]any{"defaultValue": "first"}).Is(200)
	acme.call(t, acme.admin, "POST", valuesPath, map[string]any{"userId": "ada", "userAttributeId": id, "value": "second"}).Is(200)
	acme.call(t, acme.admin, "POST", valuesPath, map[string]any{"userId": "ada", "userAttributeId": id, "value": nil}).Is(200)
	acme.call(t, acme.admin, "DELETE", attributesPath+id, nil).Is(200)
	for event, words := range map[string]string{
		"Created user attribute": "floor", "Updated user attribute": "first", "Updated user profile": "second", "Deleted user attribute": "floor",
	} {
		export := url.Values{"eventName": {event}, "search": {words}}
		rows := acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export?"+export.Encode(), nil).Is(200)
		if n := strings.Count(string(rows.Body), event); n == 0 {
			t.Errorf("no event %s with %s: %s", event, words, rows.Body)
		}
		if other := globex.call(t, globex.admin, "GET", "/api/v1/audit-logs/export?"+export.Encode(), nil).Is(200); strings.Contains(string(other.Body), words) {
			t.Errorf("another account has the event: %s", other.Body)
		}
	}
}

func TestInvalidAttributesAreRejected(t *testing.T) {
	acme.attribute(t, map[string]any{"name": "region", "type": "string"})
	for name, c := range map[string]struct {
		body   map[string]any
		status int
		words  []string
	}{
		"no name":             {map[string]any{"type": "string"}, 400, []string{"name"}},
		"a hyphen":            {map[string]any{"name": "a-b", "type": "string"}, 400, []string{"name", "a-b", "letters, digits and _"}},
		"no type":             {map[string]any{"name": "a"}, 400, []string{"type"}},
		"unknown type":        {map[string]any{"name": "a", "type": "date"}, 400, []string{"type", "date", "string_array"}},
		"name taken":          {map[string]any{"name": "REGION", "type": "string"}, 409, []string{"name", "REGION"}},
		"default of a number": {map[string]any{"name": "a", "type": "number", "defaultValue": "x"}, 400, []string{"defaultValue", "x", "number"}},
		"default of a list":   {map[string]any{"name": "a", "type": "string_array", "defaultValue": "[1]"}, 400, []string{"defaultValue", "[1]", "a list of strings"}},
		"default too long":    {map[string]any{"name": "a", "type": "string", "defaultValue": strings.Repeat("x", 513)}, 400, []string{"defaultValue", "513", "512"}},
		"unknown property":    {map[string]any{"name": "a", "type": "string", "value": "x"}, 400, []string{"value"}},
	} {
		t.Run(name, func(t *testing.T) {
			acme.call(t, acme.admin, "POST", attributesPath, c.body).Rejected(c.status, c.words...)
		})
	}
	acme.call(t, acme.admin, "GET", attributesPath, nil).Is(200).Want(map[string]string{"count": "1"})
	for method, path := range map[string]string{"GET": attributesPath, "POST": attributesPath, "PUT": attributesPath + "1", "DELETE": attributesPath + "1"} {
		acme.call(t, acme.reader, method, path, nil).Rejected(403, "Admin")
	}
	acme.call(t, acme.reader, "GET", valuesPath+"ada", nil).Rejected(403, "Admin")
	acme.call(t, acme.reader, "POST", valuesPath, map[string]any{}).Rejected(403, "Admin")
}

// Values are set by the number or the SCIM id of a user, are of the type of the attribute, and fall back to the default.
func TestValues(t *testing.T) {
	region := acme.attribute(t, map[string]any{"name": "region", "type": "string", "defaultValue": "EU"})
	stores := acme.attribute(t, map[string]any{"name": "stores", "type": "number_array"})
	set := func(user, attribute string, value any) *apiclient.Answer {
		return acme.call(t, acme.admin, "POST", valuesPath, map[string]any{"userId": user, "userAttributeId": attribute, "value": value})
	}
	ada := fmt.Sprint(number.Of("User", "ada"))
	acme.call(t, acme.admin, "GET", valuesPath+ada, nil).Is(200).Want(map[string]string{
		"length": "2", "0.userId": ada, "0.userAttributeId": region, "0.name": `"region"`, "0.type": `"string"`, "0.value": `"EU"`, "0.formattedValue": `"EU"`, "1.value": "null",
	})
	set("ada", region, "US").Is(200).Want(map[string]string{"value": `"US"`, "userId": ada, "name": `"region"`})
	set(ada, stores, []any{1, 2.5}).Is(200).Want(map[string]string{"value": "[1,2.5]", "formattedValue": `"[1,2.5]"`})
	set(ada, stores, []any{9007199254740993}).Is(200).Want(map[string]string{"formattedValue": `"[9007199254740993]"`}) // not a float64
	set(ada, stores, []any{}).Is(200).Want(map[string]string{"value": "[]"})
	acme.call(t, acme.admin, "GET", valuesPath+"ada", nil).Is(200).Want(map[string]string{"0.value": `"US"`, "1.value": "[]"})
	set(ada, stores, "1").Rejected(400, "value", "stores", `\"1\"`, "a list of numbers")
	set(ada, region, 5).Rejected(400, "value", "region", "5", "string")
	set(ada, "999", "x").Rejected(404, "userAttributeId", "999")
	set("eve", region, "x").Rejected(404, "userId", "eve")
	set("999", region, "x").Rejected(404, "userId", "999")
	globex.call(t, globex.admin, "GET", valuesPath+"nobody", nil).Rejected(404, "nobody")
	// The command-line client sends no value.
	acme.call(t, acme.admin, "POST", valuesPath, map[string]any{"userId": ada, "userAttributeId": region}).Is(200).Want(map[string]string{"value": `"EU"`})
	set(ada, stores, nil).Is(200).Want(map[string]string{"value": "null"})
	if u := user(t, acme, "ada"); len(u.Spec.Attributes) != 0 {
		t.Errorf("attributes %v", u.Spec.Attributes)
	}
}

func user(t *testing.T, a *account, name string) *v1alpha1.ScimUser {
	t.Helper()
	u := &v1alpha1.ScimUser{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: a.name, Name: name}, u); err != nil {
		t.Fatal(err)
	}
	return u
}

// patch applies or merges a patch of an object of acme.
func patch(t *testing.T, object client.Object, name, manager string, kind types.PatchType, text string) {
	t.Helper()
	object.SetNamespace(acme.name)
	object.SetName(name)
	options := []client.PatchOption{client.FieldOwner(manager)}
	if kind == types.ApplyPatchType {
		options = append(options, client.ForceOwnership)
	}
	if err := k8s.Patch(t.Context(), object, client.RawPatch(kind, []byte(text)), options...); err != nil {
		t.Fatal(err)
	}
}

// A field that Git owns is not changed, and the error names the owner.
func TestOwnersOfFieldsAreRespected(t *testing.T) {
	region := acme.attribute(t, map[string]any{"name": "region", "type": "string"})
	quota := acme.attribute(t, map[string]any{"name": "quota", "type": "number"})
	header := `"apiVersion":"platform.quoin.dev/v1alpha1"`
	patch(t, &v1alpha1.ScimUser{}, "git", "argocd-controller", types.ApplyPatchType,
		`{`+header+`,"kind":"ScimUser","metadata":{"name":"git"},"spec":{"userName":"git@example.com","attributes":[{"name":"region","string":"EU"}]}}`)
	set := func(attribute string, value any) *apiclient.Answer {
		return acme.call(t, acme.admin, "POST", valuesPath, map[string]any{"userId": "git", "userAttributeId": attribute, "value": value})
	}
	set(region, "US").Rejected(409, "argocd-controller", "spec.attributes", "region")
	set(region, nil).Rejected(409, "argocd-controller")
	set(region, "EU").Is(200)
	set(quota, 5).Is(200).Want(map[string]string{"value": "5"})
	operation := map[string]any{"op": "replace", "path": urn + ":region", "value": "US"}
	scimPatch := map[string]any{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"}, "Operations": []any{operation}}
	acme.call(t, acme.scim, "PATCH", usersPath+"git", scimPatch).Rejected(409, "argocd-controller")
	// What an identity provider has written is not changed over REST.
	operation["path"], operation["value"] = urn+":quota", 7
	acme.call(t, acme.scim, "PATCH", usersPath+"git", scimPatch).Is(200)
	set(quota, 8).Rejected(409, "quoin-scim", "spec.attributes", "quota")
	patch(t, &v1alpha1.UserAttribute{}, "team", "argocd-controller", types.ApplyPatchType,
		`{`+header+`,"kind":"UserAttribute","metadata":{"name":"team"},"spec":{"name":"team","type":"string","displayName":"Team"}}`)
	t.Cleanup(func() {
		for _, object := range []client.Object{&v1alpha1.UserAttribute{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Name: "git"}}} {
			object.SetNamespace(acme.name)
			if err := client.IgnoreNotFound(k8s.Delete(context.Background(), object)); err != nil {
				t.Error(err)
			}
		}
	})
	var team string
	apiclient.Soon(t, func() error {
		id, ok := acme.call(t, acme.admin, "GET", attributesPath+"?name=team", nil).Is(200).At("items.0.id").(float64)
		if team = fmt.Sprint(id); !ok {
			return errors.New("the attribute has no number")
		}
		return nil
	})
	acme.call(t, acme.admin, "PUT", attributesPath+team, map[string]any{"displayName": "x"}).Rejected(409, "argocd-controller", "displayName")
	acme.call(t, acme.admin, "PUT", attributesPath+team, map[string]any{"description": "x"}).Is(200)
	acme.call(t, acme.admin, "DELETE", attributesPath+team, nil).Rejected(409, "argocd-controller")
	acme.call(t, acme.admin, "GET", attributesPath+"?name=team", nil).Is(200).Want(map[string]string{"items.0.description": `"x"`})
}

// Over SCIM the attributes are an extension, which discovery declares, and of which the values have the types of the attributes.
func TestValuesAreProvisionedOverSCIM(t *testing.T) {
	schemas := func() string { return string(acme.call(t, acme.scim, "GET", "/api/scim/v2/Schemas", nil).Is(200).Body) }
	apiclient.Soon(t, func() error { // the tests before delete their attributes
		if strings.Contains(schemas(), urn) {
			return errors.New("the schema is declared without attributes")
		}
		return nil
	})
	acme.attribute(t, map[string]any{"name": "region", "type": "string", "description": "Sales region."})
	quota := acme.attribute(t, map[string]any{"name": "quota", "type": "number", "defaultValue": "1"})
	acme.attribute(t, map[string]any{"name": "internal", "type": "boolean"})
	acme.attribute(t, map[string]any{"name": "stores", "type": "string_array"})
	acme.call(t, acme.scim, "GET", "/api/scim/v2/Schemas/"+urn, nil).Is(200).Want(map[string]string{
		"attributes.length": "4", "attributes.1.name": `"quota"`, "attributes.1.type": `"decimal"`, "attributes.2.description": `"Sales region."`, "attributes.3.multiValued": "true",
	})
	if types := string(acme.call(t, acme.scim, "GET", "/api/scim/v2/ResourceTypes/User", nil).Is(200).Body); !strings.Contains(types, urn) {
		t.Errorf("the resource type does not name the schema: %s", types)
	}
	if strings.Contains(string(globex.call(t, globex.scim, "GET", "/api/scim/v2/Schemas", nil).Is(200).Body), urn) {
		t.Error("another account has the schema")
	}
	core := "urn:ietf:params:scim:schemas:core:2.0:User"
	created := acme.call(t, acme.scim, "POST", usersPath, map[string]any{
		"schemas": []string{core, urn}, "userName": "scim@example.com", urn: map[string]any{"region": "EU", "quota": 2.5, "internal": true, "stores": []string{"a", "b"}},
	}).Is(201)
	created.Want(map[string]string{"[" + urn + "].region": `"EU"`, "[" + urn + "].quota": "2.5", "[" + urn + "].stores": `["a","b"]`})
	id, _ := created.At("id").(string)
	got, _ := json.Marshal(user(t, acme, id).Spec.Attributes)
	if want := `[{"name":"internal","boolean":true},{"name":"quota","number":"2.5"},{"name":"region","string":"EU"},{"name":"stores","stringArray":["a","b"]}]`; string(got) != want {
		t.Errorf("attributes %s, want %s", got, want)
	}
	acme.call(t, acme.scim, "GET", usersPath+"?filter="+urn+":region%20eq%20%22EU%22", nil).Is(200).Want(map[string]string{"totalResults": "1"})
	change := func(operations ...map[string]any) *apiclient.Answer {
		return acme.call(t, acme.scim, "PATCH", usersPath+id, map[string]any{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"}, "Operations": operations})
	}
	change(map[string]any{"op": "replace", "path": urn + ":quota", "value": "five"}).Rejected(400, "quota", "decimal")
	change(map[string]any{"op": "replace", "path": urn + ":unknown", "value": "x"}).Rejected(400, "unknown")
	change(map[string]any{"op": "replace", "path": urn + ":region", "value": strings.Repeat("x", 513)}).Rejected(400, "region", "512")
	change(map[string]any{"op": "remove", "path": urn + ":region"}, map[string]any{"op": "add", "path": urn + ":quota", "value": 7}).Is(200).
		Want(map[string]string{"[" + urn + "].region": "null", "[" + urn + "].quota": "7"})
	// A replacement without the extension keeps the values, one with it replaces all.
	acme.call(t, acme.scim, "PUT", usersPath+id, map[string]any{"schemas": []string{core}, "userName": "scim@example.com", "title": "Dr"}).Is(200).
		Want(map[string]string{"title": `"Dr"`, "[" + urn + "].quota": "7"})
	acme.call(t, acme.scim, "PUT", usersPath+id, map[string]any{"schemas": []string{core, urn}, "userName": "scim@example.com", urn: map[string]any{"internal": false}}).Is(200).
		Want(map[string]string{"[" + urn + "].internal": "false", "[" + urn + "].quota": "null"})
	acme.call(t, acme.admin, "GET", valuesPath+id, nil).Is(200).Want(map[string]string{"0.value": "false", "1.value": "1", "2.value": "null"})
	// Without the attribute the value is kept, and no response has an undeclared attribute.
	acme.call(t, acme.admin, "POST", valuesPath, map[string]any{"userId": id, "userAttributeId": quota, "value": 3}).Is(200)
	acme.call(t, acme.admin, "DELETE", attributesPath+quota, nil).Is(200)
	acme.call(t, acme.scim, "GET", usersPath+id, nil).Is(200).Want(map[string]string{"[" + urn + "].quota": "null", "[" + urn + "].internal": "false"})
	acme.attribute(t, map[string]any{"name": "quota", "type": "number"})
	acme.call(t, acme.scim, "GET", usersPath+id, nil).Is(200).Want(map[string]string{"[" + urn + "].quota": "3"})
}
