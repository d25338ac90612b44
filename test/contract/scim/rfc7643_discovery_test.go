package scim_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const resourceTypeURN = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"

func TestRFC7643Section5_ServiceProviderConfig(t *testing.T) {
	got := acme.as(acme.rfc).call(t, "GET", "/ServiceProviderConfig", nil).is(200)
	got.want("schemas.0", "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig").want("meta.resourceType", "ServiceProviderConfig").want("meta.location", acme.base()+"/ServiceProviderConfig")
	for feature, supported := range map[string]bool{"patch": true, "bulk": true, "filter": true, "sort": true, "etag": true, "changePassword": false} {
		got.want(feature+".supported", supported)
	}
	got.want("bulk.maxOperations", 1000).want("bulk.maxPayloadSize", 1<<20).want("filter.maxResults", 1000)
	t.Run("RFC 9865 section 4: pagination", func(*testing.T) {
		got.has(`{"pagination":{"cursor":true,"index":true,"defaultPaginationMethod":"index","defaultPageSize":100,"maxPageSize":1000,"cursorTimeout":3600}}`)
	})
	t.Run("the ways to authenticate", func(t *testing.T) {
		schemes := got.list("authenticationSchemes")
		if len(schemes) == 0 {
			t.Fatalf("%s", got.raw)
		}
		for _, scheme := range schemes {
			if scheme["type"] == nil || scheme["name"] == nil || scheme["description"] == nil {
				t.Errorf("%v", scheme)
			}
		}
	})
	t.Run("the budgets of a filter are told", func(*testing.T) {
		got.has(`{"urn:quoin:params:scim:schemas:1.0:Limits":{"filterMaxLength":8192,"filterMaxDepth":32,"filterMaxNodes":200}}`)
	})
}

func TestRFC7643Section6_ResourceTypes(t *testing.T) {
	for _, a := range accounts {
		t.Run(a.name, func(t *testing.T) {
			admin := a.as(a.rfc)
			all := admin.call(t, "GET", "/ResourceTypes", nil).is(200).want("schemas.0", listURN).want("totalResults", 2).want("startIndex", 1).want("itemsPerPage", 2)
			for i, want := range []struct {
				name, endpoint, urn string
				extensions          []string
			}{{"User", "/Users", userURN, a.extensions()}, {"Group", "/Groups", groupURN, nil}} {
				one := admin.call(t, "GET", "/ResourceTypes/"+want.name, nil).is(200)
				one.want("schemas.0", resourceTypeURN).want("id", want.name).want("name", want.name).want("endpoint", want.endpoint).want("schema", want.urn)
				one.want("meta.resourceType", "ResourceType").want("meta.location", a.base()+"/ResourceTypes/"+want.name)
				var extensions []string
				for _, e := range one.list("schemaExtensions") {
					urn, _ := e["schema"].(string)
					if e["required"] != false {
						t.Errorf("%v", e)
					}
					extensions = append(extensions, urn)
				}
				if !slices.Equal(extensions, want.extensions) {
					t.Errorf("extensions are %v, want %v", extensions, want.extensions)
				}
				if listed := asJSON(all.at(fmt.Sprintf("Resources.%d", i))); listed != asJSON(one.at("")) {
					t.Errorf("listed as %s, alone %s", listed, one.raw)
				}
				for _, urn := range append(extensions, want.urn) {
					admin.call(t, "GET", "/Schemas/"+urn, nil).is(200).want("id", urn)
				}
				admin.call(t, "GET", want.endpoint+"?count=0", nil).is(200)
			}
		})
	}
}

// extensions are the URNs of what the account's users may have.
func (a *account) extensions() []string {
	if a == acme {
		return []string{enterpriseURN, attributesURN}
	}
	return []string{enterpriseURN}
}

var attributeName = regexp.MustCompile(`^(\$ref|[A-Za-z][A-Za-z0-9_-]*)$`)

func TestRFC7643Section7_Schemas(t *testing.T) {
	for _, a := range accounts {
		t.Run(a.name, func(t *testing.T) {
			admin := a.as(a.rfc)
			all := admin.call(t, "GET", "/Schemas", nil).is(200).want("schemas.0", listURN)
			if want := append([]string{userURN, groupURN}, a.extensions()...); !slices.Equal(all.ids(), want) {
				t.Errorf("there are %v, want %v", all.ids(), want)
			}
			all.want("totalResults", len(all.ids())).want("itemsPerPage", len(all.ids())).want("startIndex", 1)
			for i, urn := range all.ids() {
				one := admin.call(t, "GET", "/Schemas/"+urn, nil).is(200).want("schemas.0", "urn:ietf:params:scim:schemas:core:2.0:Schema").want("meta.resourceType", "Schema").want("meta.location", a.base()+"/Schemas/"+urn)
				if listed := asJSON(all.at(fmt.Sprintf("Resources.%d", i))); listed != asJSON(one.at("")) {
					t.Errorf("listed as %s, alone %s", listed, one.raw)
				}
				for _, attribute := range one.list("attributes") {
					checkCharacteristics(t, urn, attribute)
				}
				admin.call(t, "GET", "/Schemas/"+strings.ToUpper(urn), nil).is(200).want("id", urn)
			}
		})
	}
}

// checkCharacteristics checks that an attribute says all that section 7 has it say.
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
			acme.as(acme.rfc).call(t, "GET", path+query("filter", `id eq "User"`), nil).refused(403, "", "filter")
			as{acme, "", 0}.call(t, "GET", path+query("filter", ``), nil).refused(403, "", "filter")
		}
	})
	t.Run("has no pages and no order", func(t *testing.T) {
		for _, path := range []string{"/ResourceTypes", "/Schemas"} {
			whole := acme.as(acme.rfc).call(t, "GET", path, nil).is(200)
			part := acme.as(acme.rfc).call(t, "GET", path+"?count=1&startIndex=2&sortBy=name&sortOrder=descending&attributes=name", nil).is(200)
			if string(whole.raw) != string(part.raw) {
				t.Errorf("%s: %s", path, part.raw)
			}
		}
	})
	t.Run("is public, and tells strangers nothing of the account", func(t *testing.T) {
		for _, path := range []string{"/ServiceProviderConfig", "/ResourceTypes", "/ResourceTypes/User", "/ResourceTypes/Group", "/Schemas", "/Schemas/" + userURN, "/Schemas/" + enterpriseURN} {
			one := as{acme, "", 0}.call(t, "GET", path, nil).is(200)
			other := as{globex, "", 0}.call(t, "GET", path, nil).is(200)
			if strings.ReplaceAll(string(one.raw), acme.host, globex.host) != string(other.raw) || strings.Contains(string(one.raw), attributesURN) {
				t.Errorf("%s: %s and %s", path, one.raw, other.raw)
			}
		}
		as{acme, "", 0}.call(t, "GET", "/Schemas/"+attributesURN, nil).refused(404, "")
		acme.as(acme.rfc).call(t, "GET", "/Schemas/"+attributesURN, nil).is(200)
	})
	t.Run("is open to every key of the account, and to no wrong one", func(t *testing.T) {
		acme.as(acme.reader).call(t, "GET", "/Schemas", nil).is(200)
		acme.as("nonsense").call(t, "GET", "/Schemas", nil).refused(401, "")
		acme.as(globex.rfc).call(t, "GET", "/Schemas", nil).refused(401, "")
	})
}
