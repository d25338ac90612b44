// Package schema is the data model of SCIM: schemas with attributes and their characteristics (RFC 7643
// section 7), and resource types (section 6). The standard schemas are JSON files in this directory;
// administrators may declare extensions.
//
// The attributes of a resource are a Document. Normalize converts a request body to a Document, Render
// writes a resource as JSON.
package schema

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

// URNs of the standard schemas.
const (
	UserURN       = "urn:ietf:params:scim:schemas:core:2.0:User"
	GroupURN      = "urn:ietf:params:scim:schemas:core:2.0:Group"
	EnterpriseURN = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	// UserAttributeURN is the extension with the user attributes of an account.
	UserAttributeURN = "urn:cube:params:1.0:UserAttribute"

	ServiceProviderConfigURN = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
	ResourceTypeURN          = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	SchemaURN                = "urn:ietf:params:scim:schemas:core:2.0:Schema"
)

// Type is the data type of an attribute (RFC 7643 section 2.3).
type Type string

// Data types. In a Document a String, Reference, Binary or DateTime is a string, a Boolean a bool, an
// Integer an int64, a Decimal a float64 and a Complex a map[string]any; a multi-valued attribute is a
// []any of these, or a Set.
const (
	String    Type = "string"
	Boolean   Type = "boolean"
	Decimal   Type = "decimal"
	Integer   Type = "integer"
	DateTime  Type = "dateTime"
	Binary    Type = "binary"
	Reference Type = "reference"
	Complex   Type = "complex"
)

// Mutability is when clients may change an attribute (RFC 7643 section 7).
type Mutability string

// Values of Mutability.
const (
	ReadOnly  Mutability = "readOnly"
	ReadWrite Mutability = "readWrite"
	Immutable Mutability = "immutable"
	WriteOnly Mutability = "writeOnly"
)

// Returned is when responses contain an attribute (RFC 7643 section 7).
type Returned string

// Values of Returned.
const (
	Always    Returned = "always"
	Never     Returned = "never"
	Default   Returned = "default"
	OnRequest Returned = "request"
)

// Attribute is an attribute of a schema with its characteristics. Its JSON form is that of RFC 7643
// section 7.
type Attribute struct {
	Name            string       `json:"name"`
	Type            Type         `json:"type"`
	MultiValued     bool         `json:"multiValued"`
	Description     string       `json:"description"`
	Required        bool         `json:"required"`
	CanonicalValues []string     `json:"canonicalValues,omitempty"`
	CaseExact       bool         `json:"caseExact"`
	Mutability      Mutability   `json:"mutability"`
	Returned        Returned     `json:"returned"`
	Uniqueness      string       `json:"uniqueness,omitempty"`
	ReferenceTypes  []string     `json:"referenceTypes,omitempty"`
	SubAttributes   []*Attribute `json:"subAttributes,omitempty"`

	// Hidden attributes are accepted and dropped. They are not in discovery and cannot be used in
	// filters. An example is a password that is not stored.
	Hidden bool `json:"-"`

	// Retained attributes keep their value if a request removes or omits it. Otherwise a user who was
	// deactivated would be activated by a request that does not mention it: active has a default.
	Retained bool `json:"-"`

	// IsName attributes are names that users see. They have no control characters and the like, and are not
	// blank if they are required.
	IsName bool `json:"-"`

	// IsUserAttribute attributes are UserAttributes of the account. A replacement without their extension keeps them:
	// they may be set by other means than the client's.
	IsUserAttribute bool `json:"-"`

	// MaxElements is the maximum number of elements in a request; 0 unless the attribute is Large.
	MaxElements int `json:"-"`
}

// Large reports whether an attribute may have tens of thousands of elements, so that it is stored as a Set and
// requests are read as Elements.
func (a *Attribute) Large() bool { return a.MaxElements > 0 }

// Sub returns a sub-attribute by its case-insensitive name, or nil.
func (a *Attribute) Sub(name string) *Attribute { return find(a.SubAttributes, name) }

// Value returns the sub-attribute "value", or nil. It represents the complex attribute in filters and in
// the requests of some clients (RFC 7643 section 2.4).
func (a *Attribute) Value() *Attribute { return a.Sub("value") }

// SameName reports whether a name in a request is a name of a schema, ignoring ASCII case (RFC 7643
// section 2.1). EqualFold alone would also equate ſ with s and the Kelvin sign with k, so that an
// attribute could occur twice under different JSON names.
func SameName(name, sent string) bool {
	return len(name) == len(sent) && strings.EqualFold(name, sent)
}

func find(attributes []*Attribute, name string) *Attribute {
	for _, a := range attributes {
		if SameName(a.Name, name) {
			return a
		}
	}
	return nil
}

// Schema is a set of attributes under a URN.
type Schema struct {
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	Attributes  []*Attribute `json:"attributes"`
}

// Attribute returns an attribute by its case-insensitive name, or nil.
func (s *Schema) Attribute(name string) *Attribute { return find(s.Attributes, name) }

// Extension is a schema extension of a resource type.
type Extension struct {
	Schema   *Schema
	Required bool
}

// ResourceType is a type of resource, with its endpoint and schemas.
type ResourceType struct {
	// Name is the name and id, such as User.
	Name string
	// Endpoint is the path below the base URL, such as /Users.
	Endpoint string
	// Description is a human-readable description.
	Description string
	// Core is the core schema.
	Core *Schema
	// Extensions are the schema extensions.
	Extensions []Extension
}

// Extension returns the schema of an extension by its case-insensitive URN, or nil.
func (t *ResourceType) Extension(urn string) *Schema {
	for _, e := range t.Extensions {
		if SameName(e.Schema.ID, urn) {
			return e.Schema
		}
	}
	return nil
}

// With returns the resource type with additional extensions.
func (t *ResourceType) With(extensions ...Extension) *ResourceType {
	extended := *t
	extended.Extensions = append(append([]Extension(nil), t.Extensions...), extensions...)
	return &extended
}

// Ref is a resolved attribute path of a resource type.
type Ref struct {
	// Extension is the URN of the extension; empty for the core schema and the common attributes.
	Extension string
	// Attribute is nil if the path is only the URN of an extension.
	Attribute *Attribute
	// Sub is the sub-attribute; nil if the path has none.
	Sub *Attribute
}

// String returns the full path, with the URN of an extension.
func (r Ref) String() string {
	var parts []string
	if r.Attribute != nil {
		parts = append(parts, r.Attribute.Name)
	}
	if r.Sub != nil {
		parts = append(parts, r.Sub.Name)
	}
	path := strings.Join(parts, ".")
	switch {
	case r.Extension == "":
		return path
	case path == "":
		return r.Extension
	}
	return r.Extension + ":" + path
}

// Leaf returns the last attribute of the path; nil if the path is only the URN of an extension.
func (r Ref) Leaf() *Attribute {
	if r.Sub != nil {
		return r.Sub
	}
	return r.Attribute
}

// Resolve returns the attribute of a path that consists of URN, name and sub-attribute name; URN and sub
// may be empty, and all are case-insensitive. An empty URN means the core schema and the common
// attributes; an empty name with the URN of an extension means the whole extension. Resolve returns false
// if there is no such attribute.
func (t *ResourceType) Resolve(urn, name, sub string) (Ref, bool) {
	attributes := t.Core.Attributes
	ref := Ref{}
	if urn != "" && !SameName(t.Core.ID, urn) {
		extension := t.Extension(urn)
		if extension == nil {
			return Ref{}, false
		}
		ref.Extension, attributes = extension.ID, extension.Attributes
		if name == "" {
			return ref, sub == ""
		}
	}
	if ref.Attribute = find(attributes, name); ref.Attribute == nil && ref.Extension == "" {
		ref.Attribute = find(common, name)
	}
	if ref.Attribute == nil {
		return Ref{}, false
	}
	if sub == "" {
		return ref, true
	}
	ref.Sub = ref.Attribute.Sub(sub)
	return ref, ref.Sub != nil
}

// common are the common attributes of all resources (RFC 7643 section 3.1). Only externalId is written by
// clients.
var common = []*Attribute{
	{Name: "schemas", Type: Reference, MultiValued: true, CaseExact: false, Mutability: ReadWrite, Returned: Always, ReferenceTypes: []string{"uri"}},
	{Name: "id", Type: String, CaseExact: true, Mutability: ReadOnly, Returned: Always, Uniqueness: "server"},
	{Name: "externalId", Type: String, CaseExact: true, Mutability: ReadWrite, Returned: Default},
	{Name: "meta", Type: Complex, Mutability: ReadOnly, Returned: Default, SubAttributes: []*Attribute{
		{Name: "resourceType", Type: String, CaseExact: true, Mutability: ReadOnly, Returned: Default},
		{Name: "created", Type: DateTime, Mutability: ReadOnly, Returned: Default},
		{Name: "lastModified", Type: DateTime, Mutability: ReadOnly, Returned: Default},
		{Name: "location", Type: Reference, CaseExact: true, Mutability: ReadOnly, Returned: Default, ReferenceTypes: []string{"uri"}},
		{Name: "version", Type: String, CaseExact: true, Mutability: ReadOnly, Returned: Default},
	}},
}

var externalID, meta = find(common, "externalId"), find(common, "meta")

//go:embed *.json
var files embed.FS

// The standard schemas.
var (
	userSchema       = mustLoad("user.json")
	groupSchema      = mustLoad("group.json")
	enterpriseSchema = mustLoad("enterprise_user.json")
)

// Discovery are the schemas of the discovery resources (RFC 7643 sections 5 to 7). They are shared and must
// not be modified.
var Discovery = []*Schema{mustLoad("service_provider_config.json"), mustLoad("resource_type.json"), mustLoad("schema.json")}

// The standard resource types. They are shared and must not be modified.
var (
	User = &ResourceType{
		Name: "User", Endpoint: "/Users", Description: "User account", Core: userSchema,
		Extensions: []Extension{{Schema: enterpriseSchema}},
	}
	Group = &ResourceType{Name: "Group", Endpoint: "/Groups", Description: "Group of users and groups", Core: groupSchema}
)

// maxMembers is the maximum number of members in a request, as in docs/scim.md.
const maxMembers = 50_000

// mustLoad returns an embedded schema.
func mustLoad(file string) *Schema {
	data, err := files.ReadFile(file)
	if err != nil {
		panic(err)
	}
	s := &Schema{}
	if err := json.Unmarshal(data, s); err != nil {
		panic(fmt.Errorf("%s: %w", file, err))
	}
	if s.ID == UserURN || s.ID == GroupURN {
		markNames(s.Attributes)
	}
	if s.ID == GroupURN {
		s.Attribute("members").MaxElements = maxMembers
	}
	if s.ID == UserURN {
		s.Attribute("active").Retained = true
		// Okta sends a password even if it is configured not to.
		s.Attributes = append(s.Attributes, &Attribute{Name: "password", Type: String, CaseExact: true, Mutability: WriteOnly, Returned: Never, Hidden: true})
	}
	return s
}
