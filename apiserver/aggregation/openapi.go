package aggregation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The paths of the OpenAPI documents. The documented paths of accounts are not in them: /api/v1/spec
// describes those.
const (
	openAPIv2Path = "/openapi/v2"
	openAPIv3Path = "/openapi/v3"
	// groupPath is the name of the group in the index of OpenAPI v3.
	groupPath = "apis/api.platform.quoin.dev/v1"
)

// fields is a JSON object.
type fields = map[string]any

// The names of the schemas.
const (
	accountSchema     = "dev.quoin.platform.api.v1.Account"
	accountListSchema = "dev.quoin.platform.api.v1.AccountList"
)

// openAPISchemas returns the schemas, which refer to each other below prefix. `kubectl explain` shows
// them.
func openAPISchemas(prefix string) fields {
	text := func(description string) fields { return fields{"type": "string", "description": description} }
	kind := func(name string) []metav1.GroupVersionKind {
		return []metav1.GroupVersionKind{{Group: GroupVersion.Group, Version: GroupVersion.Version, Kind: name}}
	}
	apiVersion := text("Version of the schema of this object: " + GroupVersion.String() + ".")
	return fields{
		accountSchema: fields{
			"type": "object",
			"description": "Account is the read-only representation of an Account of platform.quoin.dev. Its subresource proxy " +
				"serves the REST and SCIM paths of the account: accounts/<name>/proxy/<path>.",
			"required": []string{"metadata", "spec"},
			"properties": fields{
				"apiVersion": apiVersion,
				"kind":       text("Account."),
				"metadata": fields{
					"type": "object", "description": "Standard object metadata.",
					"properties": fields{
						"name":              text("Name of the account."),
						"creationTimestamp": fields{"type": "string", "format": "date-time", "description": "Time of the creation of the account."},
					},
				},
				"spec": fields{
					"type": "object", "description": "Description of the account.", "required": []string{"url"},
					"properties": fields{"url": text("Base URL of the account's APIs outside of the Kubernetes API.")},
				},
			},
			"x-kubernetes-group-version-kind": kind("Account"),
		},
		accountListSchema: fields{
			"type": "object", "description": "AccountList is a list of Accounts.", "required": []string{"metadata", "items"},
			"properties": fields{
				"apiVersion": apiVersion,
				"kind":       text("AccountList."),
				"metadata":   fields{"type": "object", "description": "Standard list metadata."},
				"items":      fields{"type": "array", "description": "All accounts, sorted by name.", "items": fields{"$ref": prefix + accountSchema}},
			},
			"x-kubernetes-group-version-kind": kind("AccountList"),
		},
	}
}

// openAPIPaths returns the operations. content returns the content of a response with a schema, name is
// the type of a path parameter.
func openAPIPaths(content func(schema string) fields, name fields) fields {
	name["name"], name["in"], name["required"] = "name", "path", true
	get := func(id, action, description, schema string) fields {
		response := content(schema)
		response["description"] = "OK"
		return fields{
			"operationId": id, "description": description, "responses": fields{"200": response},
			"x-kubernetes-action":             action,
			"x-kubernetes-group-version-kind": metav1.GroupVersionKind{Group: GroupVersion.Group, Version: GroupVersion.Version, Kind: "Account"},
		}
	}
	return fields{
		accountsPath:             fields{"get": get("listAccount", "list", "list all accounts", accountListSchema)},
		accountsPath + "/{name}": fields{"get": get("readAccount", "get", "read an account", accountSchema), "parameters": []fields{name}},
	}
}

// openAPIv2 returns the OpenAPI v2 document.
func openAPIv2() fields {
	const prefix = "#/definitions/"
	paths := openAPIPaths(func(schema string) fields { return fields{"schema": fields{"$ref": prefix + schema}} }, fields{"type": "string"})
	return fields{
		"swagger": "2.0", "info": fields{"title": "Quoin", "version": GroupVersion.Version},
		"paths": paths, "definitions": openAPISchemas(prefix),
	}
}

// openAPIv3 returns the OpenAPI v3 document of the group.
func openAPIv3() fields {
	const prefix = "#/components/schemas/"
	paths := openAPIPaths(func(schema string) fields {
		return fields{"content": fields{"application/json": fields{"schema": fields{"$ref": prefix + schema}}}}
	}, fields{"schema": fields{"type": "string"}})
	return fields{
		"openapi": "3.0.0", "info": fields{"title": "Quoin", "version": GroupVersion.Version},
		"paths": paths, "components": fields{"schemas": openAPISchemas(prefix)},
	}
}

// openAPIIndex returns the index of OpenAPI v3 (KEP-2896). Clients cache the document by the hash in its
// URL.
func openAPIIndex() (fields, error) {
	document, err := json.Marshal(openAPIv3())
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(document)
	return fields{"paths": fields{
		groupPath: fields{"serverRelativeURL": openAPIv3Path + "/" + groupPath + "?hash=" + hex.EncodeToString(sum[:])},
	}}, nil
}
