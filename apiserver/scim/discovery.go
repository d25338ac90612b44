package scim

import (
	"net/http"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// object is a JSON object.
type object = map[string]any

// rejectFilter returns a 403 error for a filter (RFC 7644 section 4). Other list parameters are
// ignored.
func (x *exchange) rejectFilter() error {
	if x.URL.Query().Has("filter") {
		return scimerror.New(http.StatusForbidden, "filter: is not supported by discovery endpoints")
	}
	return nil
}

// serviceProviderConfig returns the supported features (RFC 7643 section 5, RFC 9865 section 4).
func (x *exchange) serviceProviderConfig() error {
	if err := x.rejectFilter(); err != nil {
		return err
	}
	return x.writeJSON(object{
		"schemas":        []string{schema.ServiceProviderConfigURN},
		"patch":          object{"supported": true},
		"bulk":           object{"supported": true, "maxOperations": maxOperations, "maxPayloadSize": maxPayload},
		"filter":         object{"supported": true, "maxResults": maxPage},
		"changePassword": object{"supported": false},
		"sort":           object{"supported": true},
		"etag":           object{"supported": true},
		"pagination": object{
			"cursor": true, "index": true, "defaultPaginationMethod": "index",
			"defaultPageSize": defaultPage, "maxPageSize": maxPage, "cursorTimeout": int(cursorLifetime.Seconds()),
		},
		"authenticationSchemes": []object{{
			"type": "oauthbearertoken", "name": "Bearer token", "primary": true, "specUri": "https://www.rfc-editor.org/info/rfc6750",
			"description": "An API key of the account, or an OAuth access token of one of its issuers. A key may also be sent as Authorization: Api-Key.",
		}},
		"meta": object{"resourceType": "ServiceProviderConfig", "location": x.tenant.BaseURL + "/ServiceProviderConfig"},
	})
}

func (x *exchange) listResourceTypes() error {
	if err := x.rejectFilter(); err != nil {
		return err
	}
	return x.writeJSON(listResponse(x.tenant.Types, x.describeType))
}

func (x *exchange) getResourceType() error {
	i := slices.IndexFunc(x.tenant.Types, func(t *schema.ResourceType) bool { return t.Name == x.PathValue("id") })
	if i < 0 {
		return scimerror.NotFound("resource type", x.PathValue("id"))
	}
	return x.writeJSON(x.describeType(x.tenant.Types[i]))
}

func (x *exchange) describeType(t *schema.ResourceType) object {
	extensions := []object{}
	for _, e := range t.Extensions {
		extensions = append(extensions, object{"schema": e.Schema.ID, "required": e.Required})
	}
	return object{
		"schemas": []string{schema.ResourceTypeURN}, "id": t.Name, "name": t.Name, "endpoint": t.Endpoint,
		"description": t.Description, "schema": t.Core.ID, "schemaExtensions": extensions,
		"meta": object{"resourceType": "ResourceType", "location": x.tenant.BaseURL + "/ResourceTypes/" + t.Name},
	}
}

// schemas returns the distinct schemas of all resource types, and those of the discovery resources.
func (x *exchange) schemas() []*schema.Schema {
	var all []*schema.Schema
	add := func(s *schema.Schema) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, t := range x.tenant.Types {
		add(t.Core)
	}
	for _, t := range x.tenant.Types {
		for _, e := range t.Extensions {
			add(e.Schema)
		}
	}
	return append(all, schema.Discovery...)
}

func (x *exchange) listSchemas() error {
	if err := x.rejectFilter(); err != nil {
		return err
	}
	return x.writeJSON(listResponse(x.schemas(), x.describeSchema))
}

func (x *exchange) getSchema() error {
	all := x.schemas()
	i := slices.IndexFunc(all, func(s *schema.Schema) bool { return strings.EqualFold(s.ID, x.PathValue("id")) })
	if i < 0 {
		return scimerror.NotFound("schema", x.PathValue("id"))
	}
	return x.writeJSON(x.describeSchema(all[i]))
}

func (x *exchange) describeSchema(s *schema.Schema) object {
	return object{
		"schemas": []string{schema.SchemaURN}, "id": s.ID, "name": s.Name, "description": s.Description,
		"attributes": slices.DeleteFunc(slices.Clone(s.Attributes), func(a *schema.Attribute) bool { return a.Hidden }),
		"meta":       object{"resourceType": "Schema", "location": x.tenant.BaseURL + "/Schemas/" + s.ID},
	}
}

// listResponse returns all items: discovery is not paginated (RFC 7644 section 4).
func listResponse[T any](items []T, describe func(T) object) object {
	resources := make([]object, len(items))
	for i, item := range items {
		resources[i] = describe(item)
	}
	return object{
		"schemas": []string{listURN}, "totalResults": len(items), "startIndex": 1, "itemsPerPage": len(items), "Resources": resources,
	}
}
