package scim_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// discoverySchemas are the schemas of the discovery resources.
var discoverySchemas = []string{"urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig", resourceTypeURN, "urn:ietf:params:scim:schemas:core:2.0:Schema"}

const resourceTypeURN = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"

func TestRFC7643Section5_ServiceProviderConfig(t *testing.T) {
	got := acme.WithToken(acme.RFC).Call(t, "GET", "/ServiceProviderConfig", nil).WantStatus(200)
	got.Want("schemas.0", "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig").Want("meta.resourceType", "ServiceProviderConfig").Want("meta.location", acme.BaseURL()+"/ServiceProviderConfig")
	for feature, supported := range map[string]bool{"patch": true, "bulk": true, "filter": true, "sort": true, "etag": true, "changePassword": false} {
		got.Want(feature+".supported", supported)
	}
	got.Want("bulk.maxOperations", 1000).Want("bulk.maxPayloadSize", 1<<20).Want("filter.maxResults", 1000)
	t.Run("RFC 9865 section 4: pagination", func(*testing.T) {
		got.WantMembers(`{"pagination":{"cursor":true,"index":true,"defaultPaginationMethod":"index","defaultPageSize":100,"maxPageSize":1000,"cursorTimeout":3600}}`)
	})
	t.Run("authentication schemes", func(t *testing.T) {
		schemes := got.List("authenticationSchemes")
		if len(schemes) == 0 {
			t.Fatalf("%s", got.Raw)
		}
		for _, scheme := range schemes {
			if scheme["type"] == nil || scheme["name"] == nil || scheme["description"] == nil {
				t.Errorf("%v", scheme)
			}
		}
	})
	got.WantOnly("schemas", "patch", "bulk", "filter", "changePassword", "sort", "etag", "pagination", "authenticationSchemes", "meta")
}

func TestRFC7643Section6_ResourceTypes(t *testing.T) {
	for _, a := range scimtest.Accounts {
		t.Run(a.Name, func(t *testing.T) {
			admin := a.WithToken(a.RFC)
			all := admin.Call(t, "GET", "/ResourceTypes", nil).WantStatus(200).Want("schemas.0", scimtest.ListURN).Want("totalResults", 2).Want("startIndex", 1).Want("itemsPerPage", 2)
			for i, want := range []struct {
				name, endpoint, urn string
				extensions          []string
			}{{"User", "/Users", scimtest.UserURN, extensions(a)}, {"Group", "/Groups", scimtest.GroupURN, nil}} {
				one := admin.Call(t, "GET", "/ResourceTypes/"+want.name, nil).WantStatus(200)
				one.Want("schemas.0", resourceTypeURN).Want("id", want.name).Want("name", want.name).Want("endpoint", want.endpoint).Want("schema", want.urn)
				one.Want("meta.resourceType", "ResourceType").Want("meta.location", a.BaseURL()+"/ResourceTypes/"+want.name)
				var extensions []string
				for _, e := range one.List("schemaExtensions") {
					urn, _ := e["schema"].(string)
					if e["required"] != false {
						t.Errorf("%v", e)
					}
					extensions = append(extensions, urn)
				}
				if !slices.Equal(extensions, want.extensions) {
					t.Errorf("extensions are %v, want %v", extensions, want.extensions)
				}
				if listed := scimtest.FormatJSON(all.Value(fmt.Sprintf("Resources.%d", i))); listed != scimtest.FormatJSON(one.Value("")) {
					t.Errorf("listed as %s, by id %s", listed, one.Raw)
				}
				for _, urn := range append(extensions, want.urn) {
					admin.Call(t, "GET", "/Schemas/"+urn, nil).WantStatus(200).Want("id", urn)
				}
				admin.Call(t, "GET", want.endpoint+"?count=0", nil).WantStatus(200)
			}
		})
	}
}

// extensions returns the URNs of the extensions of users.
func extensions(a *scimtest.Account) []string {
	if a == acme {
		return []string{scimtest.EnterpriseURN, scimtest.AttributesURN}
	}
	return []string{scimtest.EnterpriseURN}
}

var attributeName = regexp.MustCompile(`^(\$ref|[A-Za-z][A-Za-z0-9_-]*)$`)

func TestRFC7643Section7_Schemas(t *testing.T) {
	for _, a := range scimtest.Accounts {
		t.Run(a.Name, func(t *testing.T) {
			admin := a.WithToken(a.RFC)
			all := admin.Call(t, "GET", "/Schemas", nil).WantStatus(200).Want("schemas.0", scimtest.ListURN)
			if want := slices.Concat([]string{scimtest.UserURN, scimtest.GroupURN}, extensions(a), discoverySchemas); !slices.Equal(all.IDs(), want) {
				t.Errorf("got %v, want %v", all.IDs(), want)
			}
			all.Want("totalResults", len(all.IDs())).Want("itemsPerPage", len(all.IDs())).Want("startIndex", 1)
			for i, urn := range all.IDs() {
				one := admin.Call(t, "GET", "/Schemas/"+urn, nil).WantStatus(200).Want("schemas.0", "urn:ietf:params:scim:schemas:core:2.0:Schema").Want("meta.resourceType", "Schema").Want("meta.location", a.BaseURL()+"/Schemas/"+urn)
				if listed := scimtest.FormatJSON(all.Value(fmt.Sprintf("Resources.%d", i))); listed != scimtest.FormatJSON(one.Value("")) {
					t.Errorf("listed as %s, by id %s", listed, one.Raw)
				}
				for _, attribute := range one.List("attributes") {
					checkCharacteristics(t, urn, attribute)
				}
				admin.Call(t, "GET", "/Schemas/"+strings.ToUpper(urn), nil).WantStatus(200).Want("id", urn)
			}
		})
	}
}

// checkCharacteristics checks that an attribute has all characteristics of section 7.
func checkCharacteristics(t *testing.T, path string, attribute map[string]any) {
	t.Helper()
	name, _ := attribute["name"].(string)
	path += ":" + name
	if !attributeName.MatchString(name) || name == "password" {
		t.Errorf("%s: name", path)
	}
	for member, allowed := range map[string][]string{
		"type":       {"string", "boolean", "decimal", "integer", "dateTime", "binary", "reference", "complex"},
		"mutability": {"readOnly", "readWrite", "immutable", "writeOnly"}, "returned": {"always", "never", "default", "request"}, "uniqueness": {"none", "server", "global"},
	} {
		if value, _ := attribute[member].(string); !slices.Contains(allowed, value) {
			t.Errorf("%s: %s is %v", path, member, attribute[member])
		}
	}
	for _, member := range []string{"multiValued", "required", "caseExact"} {
		if _, ok := attribute[member].(bool); !ok {
			t.Errorf("%s: %s is %v", path, member, attribute[member])
		}
	}
	for member, value := range attribute {
		if value == nil {
			t.Errorf("%s: %s is null", path, member)
		}
	}
	subs, complexValue := attribute["subAttributes"].([]any)
	if complexValue != (attribute["type"] == "complex") {
		t.Errorf("%s: of type %v with %d sub-attributes", path, attribute["type"], len(subs))
	}
	if _, references := attribute["referenceTypes"].([]any); references != (attribute["type"] == "reference") {
		t.Errorf("%s: of type %v with referenceTypes %v", path, attribute["type"], attribute["referenceTypes"])
	}
	for _, sub := range subs {
		sub, _ := sub.(map[string]any)
		checkCharacteristics(t, path, sub)
	}
}

func TestRFC7644Section4_Discovery(t *testing.T) {
	t.Run("cannot be filtered", func(t *testing.T) {
		for _, path := range []string{"/ServiceProviderConfig", "/ResourceTypes", "/Schemas"} {
			acme.WithToken(acme.RFC).Call(t, "GET", path+scimtest.Query("filter", `id eq "User"`), nil).WantError(403, "", "filter")
			acme.WithAuthorization("").Call(t, "GET", path+scimtest.Query("filter", ``), nil).WantError(403, "", "filter")
		}
	})
	t.Run("is not paginated or sorted", func(t *testing.T) {
		for _, path := range []string{"/ResourceTypes", "/Schemas"} {
			whole := acme.WithToken(acme.RFC).Call(t, "GET", path, nil).WantStatus(200)
			part := acme.WithToken(acme.RFC).Call(t, "GET", path+"?count=1&startIndex=2&sortBy=name&sortOrder=descending&attributes=name", nil).WantStatus(200)
			if string(whole.Raw) != string(part.Raw) {
				t.Errorf("%s: %s", path, part.Raw)
			}
		}
	})
	t.Run("is public, without data of the account", func(t *testing.T) {
		for _, path := range []string{"/ServiceProviderConfig", "/ResourceTypes", "/ResourceTypes/User", "/ResourceTypes/Group", "/Schemas", "/Schemas/" + scimtest.UserURN, "/Schemas/" + scimtest.EnterpriseURN} {
			one := acme.WithAuthorization("").Call(t, "GET", path, nil).WantStatus(200)
			other := globex.WithAuthorization("").Call(t, "GET", path, nil).WantStatus(200)
			if strings.ReplaceAll(string(one.Raw), acme.Host, globex.Host) != string(other.Raw) || strings.Contains(string(one.Raw), scimtest.AttributesURN) {
				t.Errorf("%s: %s and %s", path, one.Raw, other.Raw)
			}
		}
		acme.WithAuthorization("").Call(t, "GET", "/Schemas/"+scimtest.AttributesURN, nil).WantError(404, "")
		acme.WithToken(acme.RFC).Call(t, "GET", "/Schemas/"+scimtest.AttributesURN, nil).WantStatus(200)
	})
	t.Run("requires no permission, but rejects invalid keys", func(t *testing.T) {
		acme.WithToken(acme.Reader).Call(t, "GET", "/Schemas", nil).WantStatus(200)
		acme.WithToken("nonsense").Call(t, "GET", "/Schemas", nil).WantError(401, "")
		acme.WithToken(globex.RFC).Call(t, "GET", "/Schemas", nil).WantError(401, "")
	})
}
