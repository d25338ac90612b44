package filter

import (
	"testing"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// device is a resource type with data types that the standard schemas do not use.
var device = &schema.ResourceType{Name: "Device", Core: &schema.Schema{ID: "urn:acme:Device", Attributes: []*schema.Attribute{
	{Name: "slots", Type: schema.Integer},
	{Name: "weight", Type: schema.Decimal},
	{Name: "bought", Type: schema.DateTime},
	{Name: "tags", Type: schema.String, MultiValued: true},
	{Name: "serial", Type: schema.String, CaseExact: true},
	{Name: "key", Type: schema.Complex, SubAttributes: []*schema.Attribute{
		{Name: "value", Type: schema.String, Returned: schema.Never},
		{Name: "kind", Type: schema.String},
	}},
	{Name: "ports", Type: schema.Complex, MultiValued: true, SubAttributes: []*schema.Attribute{
		{Name: "number", Type: schema.Integer},
		{Name: "uses", Type: schema.String, MultiValued: true},
	}},
}}}

func compile(t testing.TB, s string, rt *schema.ResourceType) *Predicate {
	t.Helper()
	p, err := Compile(mustParse(t, s), rt)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return p
}

// TestCompileErrors checks that unknown attributes and operators that do not fit the type of an attribute
// are rejected (RFC 7644 section 3.4.2.2).
func TestCompileErrors(t *testing.T) {
	for s, want := range map[string]string{
		`nope eq 1`:                      `at position 1: "nope" is not an attribute of User`,
		`title pr and Nick.name eq "x"`:  `at position 14: "Nick.name" is not an attribute of User`,
		`urn:x:y pr`:                     `"urn:x:y" is not an attribute`,
		`emails[nope eq 1]`:              `at position 8: "nope" is not a sub-attribute of emails`,
		`emails[emails.value eq "x"]`:    `"emails.value" is not a sub-attribute of emails`,
		`emails[value[type pr]]`:         `"value" is not a sub-attribute`,
		`nope[type eq "work"]`:           `"nope" is not an attribute`,
		`title[value eq "x"]`:            `at position 1: "title" has no sub-attributes`,
		schema.EnterpriseURN + `[a pr]`:  `is not an attribute`,
		`active gt false`:                `at position 8: active is of type boolean: it is not compared by gt`,
		`active co "t"`:                  `active is of type boolean: it is not compared by co`,
		`x509Certificates.value lt "x"`:  `x509Certificates.value is of type binary`,
		`emails gt "x"`:                  `emails has sub-attributes`,
		`name eq "x"`:                    `name has sub-attributes`,
		`addresses eq "x"`:               `addresses has sub-attributes`,
		schema.EnterpriseURN + ` eq "x"`: `has sub-attributes`,
		`userName eq 1`:                  `at position 10: userName is of type string: it is compared with a text in quotes`,
		`userName eq true`:               `it is compared with a text in quotes`,
		`active eq "yes"`:                `it is compared with true or false`,
		`active eq 1`:                    `it is compared with true or false`,
		`meta.created gt "yesterday"`:    `meta.created is of type dateTime: it is compared with a time`,
		`meta.created gt 5`:              `it is compared with a time`,
		`title pr or meta.location pr`:   `at position 13: meta.location is a URL of this service`,
		`meta[location co "/Users/"]`:    `at position 6: meta.location is a URL of this service`,
		`groups.$ref ne "x"`:             `groups.$ref is a URL of this service`,
		`groups[$ref eq "x"]`:            `groups.$ref is a URL of this service`,
		`manager.$ref pr`:                `:manager.$ref is a URL of this service`,
		`title gt null`:                  `at position 7: null is compared with eq and ne only`,
		`title co null`:                  `null is compared with eq and ne only`,
	} {
		t.Run(s, func(t *testing.T) {
			_, err := Compile(mustParse(t, s), schema.User)
			wantError(t, err, 400, scimerror.InvalidFilter, want)
		})
	}
	for s, want := range map[string]string{
		`slots co "1"`:       `slots is of type integer: it is not compared by co`,
		`weight sw "1"`:      `weight is of type decimal: it is not compared by sw`,
		`slots eq "1"`:       `it is compared with a number`,
		`weight eq 1e999`:    `it is compared with a number that is not too large`,
		`ports eq 1`:         `ports has sub-attributes`,
		`urn:acme:Device pr`: `is not an attribute`,
	} {
		t.Run(s, func(t *testing.T) {
			_, err := Compile(mustParse(t, s), device)
			wantError(t, err, 400, scimerror.InvalidFilter, want)
		})
	}
	_, err := Compile(nil, schema.User)
	wantError(t, err, 400, scimerror.InvalidFilter, "empty")
}

// TestCompileSensitive checks that filters cannot use attributes that are never returned (RFC 7644 section
// 7.5.2).
func TestCompileSensitive(t *testing.T) {
	for s, rt := range map[string]*schema.ResourceType{
		`title pr and password sw "a"`: schema.User,
		`PASSWORD pr`:                  schema.User,
		`key eq "x"`:                   device,
		`key.value pr`:                 device,
		`key[value eq "x"]`:            device,
	} {
		_, err := Compile(mustParse(t, s), rt)
		t.Run(s, func(t *testing.T) { wantError(t, err, 403, scimerror.Sensitive, "cannot be used in a filter") })
	}
}

func TestCompileElement(t *testing.T) {
	path, err := ParsePath(`emails[type eq "work" and value pr].display`)
	if err != nil {
		t.Fatal(err)
	}
	emails, _ := path.Resolve(schema.User)
	p, err := CompileElement(path.Filter, emails.Attribute)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Match(map[string]any{"type": "Work", "value": "x"}) || p.Match(map[string]any{"type": "work"}) || p.Match(nil) {
		t.Error("the wrong elements match")
	}
	if key, ok := p.Key(); ok {
		t.Errorf("got key %q", key)
	}
	_, err = CompileElement(path.Filter, schema.User.Core.Attribute("userName"))
	wantError(t, err, 400, scimerror.InvalidFilter, "userName has no sub-attributes")
	_, err = CompileElement(equal(name("nope"), "x"), emails.Attribute)
	wantError(t, err, 400, scimerror.InvalidFilter, `"nope" is not a sub-attribute of emails`)
}
