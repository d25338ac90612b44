// Package schema is what SCIM knows of resources, as data: schemas with their attributes and
// the attributes' characteristics (RFC 7643 section 7), and resource types (section 6). The
// standard ones are JSON files beside this one; an administrator may declare further ones.
//
// A resource is a Document. Normalize makes one of what a client sent, Render writes one.
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
)

// Type is the data type of an attribute (RFC 7643 section 2.3).
type Type string

// The data types. In a Document a String, Reference, Binary or DateTime is a string, a Boolean
// a bool, an Integer an int64, a Decimal a float64, a Complex a map[string]any; what has many
// values is a []any of these, or a Set.
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

// Mutability says when an attribute may be given a value.
type Mutability string

// The mutabilities.
const (
	ReadOnly  Mutability = "readOnly"
	ReadWrite Mutability = "readWrite"
	Immutable Mutability = "immutable"
	WriteOnly Mutability = "writeOnly"
)

// Returned says when an attribute is shown.
type Returned string

// When an attribute is returned.
const (
	Always    Returned = "always"
	Never     Returned = "never"
	Default   Returned = "default"
	OnRequest Returned = "request"
)

// Attribute is one attribute of a schema, with its characteristics. The JSON form is that of
// RFC 7643 section 7.
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

	// Hidden attributes are taken and dropped: they are in no list of attributes, and nothing
	// can be asked about them. Such is a password where no password is kept.
	Hidden bool `json:"-"`
}

// Sub finds a sub-attribute by name, in any case; nil when there is none.
func (a *Attribute) Sub(name string) *Attribute { return find(a.SubAttributes, name) }

// Value is the sub-attribute "value", which stands for the whole of a complex attribute in
// filters and in what some clients send (RFC 7643 section 2.4); nil when there is none.
func (a *Attribute) Value() *Attribute { return a.Sub("value") }

// SameName tells whether a client means a name of a schema: in any case (RFC 7643 section 2.1), and
// in no other letters. EqualFold alone takes ſ for s and the sign of Kelvin for k, and one attribute
// could be there twice under names that are not the same JSON.
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

// Attribute finds an attribute by name, in any case; nil when there is none.
func (s *Schema) Attribute(name string) *Attribute { return find(s.Attributes, name) }

// Extension is a further schema of a resource type.
type Extension struct {
	Schema   *Schema
	Required bool
}

// ResourceType is a kind of resource: where it is served, and of which schemas it consists.
type ResourceType struct {
	// Name, which is its id too, such as User.
	Name string
	// Endpoint below the base URL, such as /Users.
	Endpoint string
	// Description for people.
	Description string
	// Core schema.
	Core *Schema
	// Extensions that resources may have.
	Extensions []Extension
}

// Extension finds an extension's schema by its URN, in any case; nil when there is none.
func (t *ResourceType) Extension(urn string) *Schema {
	for _, e := range t.Extensions {
		if SameName(e.Schema.ID, urn) {
			return e.Schema
		}
	}
	return nil
}

// With is the resource type with further extensions.
func (t *ResourceType) With(extensions ...Extension) *ResourceType {
	extended := *t
	extended.Extensions = append(append([]Extension(nil), t.Extensions...), extensions...)
	return &extended
}

// Ref is an attribute of a resource type that a path leads to.
type Ref struct {
	// Extension is the URN of the extension that has the attribute; empty for the core schema
	// and the common attributes.
	Extension string
	// Attribute is nil when the path is an extension's URN alone.
	Attribute *Attribute
	// Sub is the sub-attribute; nil when the path ends at Attribute.
	Sub *Attribute
}

// String is the path as it is written in full: with the URN of an extension.
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

// Leaf is what the path ends at; nil when that is an extension as a whole.
func (r Ref) Leaf() *Attribute {
	if r.Sub != nil {
		return r.Sub
	}
	return r.Attribute
}

// Resolve finds the attribute of a path: its URN (empty when there is none), the attribute's
// name and the sub-attribute's (empty when there is none), all in any case. Without a URN the
// core schema and the common attributes are meant; an empty name with the URN of an extension
// is the extension as a whole. It returns false when there is no such attribute.
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

// common are the attributes of every resource (RFC 7643 section 3.1). externalId stands with
// them and is written by clients; the others are the server's.
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

// The standard resource types. They are shared: not to be changed.
var (
	User = &ResourceType{
		Name: "User", Endpoint: "/Users", Description: "User account", Core: userSchema,
		Extensions: []Extension{{Schema: enterpriseSchema}},
	}
	Group = &ResourceType{Name: "Group", Endpoint: "/Groups", Description: "Group of users and groups", Core: groupSchema}
)

// mustLoad reads a schema that is part of the program.
func mustLoad(file string) *Schema {
	data, err := files.ReadFile(file)
	if err != nil {
		panic(err)
	}
	s := &Schema{}
	if err := json.Unmarshal(data, s); err != nil {
		panic(fmt.Errorf("%s: %w", file, err))
	}
	if s.ID == UserURN {
		// Okta always sends a password (domain fact: SCIM clients do, even when told not to).
		s.Attributes = append(s.Attributes, &Attribute{Name: "password", Type: String, CaseExact: true, Mutability: WriteOnly, Returned: Never, Hidden: true})
	}
	return s
}
