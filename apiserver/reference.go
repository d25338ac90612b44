package apiserver

import (
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/rest/identity"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Reference returns the reference page and the OpenAPI document that a server of this version serves to all
// accounts, without a cluster.
func Reference(version string) (page, document []byte, err error) {
	api, err := composeREST(nil, identity.Options{}, storedGroups{}, version)
	if err != nil {
		return nil, nil, err
	}
	return api.Reference(), api.Document(), nil
}

// scimSection returns the section of the reference about SCIM.
func scimSection() rest.Section {
	section := rest.Section{Name: "SCIM", About: "SCIM 2.0 (RFC 7643, RFC 7644) for identity providers."}
	for _, o := range scim.Operations() {
		shown := rest.SectionOperation{ID: o.ID, Method: o.Method, Path: o.Path, Summary: o.Summary, Description: o.Access, Curl: scimCurl(o)}
		for _, p := range o.Parameters {
			shown.Parameters = append(shown.Parameters, rest.SectionField{Name: p.Name, In: "query", Type: p.Type, About: p.About})
		}
		shown.Body = scimFields("", o.Body)
		section.Operations = append(section.Operations, shown)
	}
	return section
}

// scimFields returns the attributes that clients write, with their sub-attributes.
func scimFields(prefix string, attributes []*schema.Attribute) []rest.SectionField {
	var fields []rest.SectionField
	for _, a := range attributes {
		if a.Hidden || a.Mutability == schema.ReadOnly {
			continue
		}
		name, of := prefix+a.Name, string(a.Type)
		if a.MultiValued {
			name += "[]"
		}
		fields = append(fields, rest.SectionField{Name: name, Type: of, About: a.Description, Required: a.Required && prefix == ""})
		fields = append(fields, scimFields(name+".", a.SubAttributes)...)
	}
	return fields
}

// scimCurl returns a command that calls an operation.
func scimCurl(o scim.Operation) string {
	command := rest.CurlCommand
	if o.Method != http.MethodGet && o.Method != http.MethodPost {
		command += " -X " + o.Method
	}
	if o.Example != "" {
		command += ` -H "Content-Type: ` + scim.MediaType + `" -d '` + o.Example + "'"
	}
	return command + ` "$QUOIN_URL` + strings.ReplaceAll(o.Path, "{id}", "$ID") + `"`
}
