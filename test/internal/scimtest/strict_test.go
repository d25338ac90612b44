package scimtest

import (
	"strings"
	"testing"
)

// TestStrictClient checks that the strict client finds each kind of violation.
func TestStrictClient(t *testing.T) {
	text := func(name string) *declared { return &declared{Name: name, Type: "string"} }
	c := &strictClient{schemas: map[string]*declared{
		UserURN: {Attributes: []*declared{
			{Name: "userName", Type: "string", Required: true}, {Name: "active", Type: "boolean"}, {Name: "size", Type: "integer"},
			{Name: "password", Type: "string", Returned: "never"}, {Name: "since", Type: "dateTime"}, {Name: "profileUrl", Type: "reference"},
			{Name: "emails", Type: "complex", MultiValued: true, SubAttributes: []*declared{text("value")}},
		}},
		EnterpriseURN: {Attributes: []*declared{text("department")}},
	}}
	const head = `{"schemas":["` + UserURN + `"],"userName":"u"`
	for name, test := range map[string]struct{ body, query, want string }{
		"valid":                     {body: head + `,"id":"1","active":true,"size":1,"emails":[{"value":"a"}],"meta":{"resourceType":"User","location":"https://x/1"}}`},
		"projection":                {body: `{"schemas":["` + UserURN + `"]}`, query: "attributes=id"},
		"list":                      {body: `{"schemas":["` + ListURN + `"],"totalResults":1,"Resources":[` + head + `}]}`},
		"attribute":                 {body: head + `,"x":1}`, want: "x is not declared"},
		"attribute in a list":       {body: `{"schemas":["` + ListURN + `"],"Resources":[` + head + `,"x":1}]}`, want: "Resources[0].x is not declared"},
		"member of a list":          {body: `{"schemas":["` + ListURN + `"],"x":1}`, want: "x is not declared"},
		"member of an error":        {body: `{"schemas":["` + ErrorURN + `"],"error":"e"}`, want: "error is not declared"},
		"sub-attribute":             {body: head + `,"emails":[{"x":"a"}]}`, want: "emails[0].x is not declared"},
		"schema":                    {body: `{"schemas":["` + UserURN + `","urn:x"],"userName":"u"}`, want: "urn:x is not in /Schemas"},
		"no schemas":                {body: `{"userName":"u"}`, want: "schemas is missing"},
		"extension outside schemas": {body: head + `,"` + EnterpriseURN + `":{"department":"d"}}`, want: "is not declared"},
		"missing":                   {body: `{"schemas":["` + UserURN + `"]}`, want: "userName is required"},
		"never returned":            {body: head + `,"password":"p"}`, want: "must not be returned"},
		"string for boolean":        {body: head + `,"active":"true"}`, want: "active is not of type boolean"},
		"fraction":                  {body: head + `,"size":1.5}`, want: "size is not of type integer"},
		"null":                      {body: head + `,"active":null}`, want: "active is not of type boolean"},
		"single for many":           {body: head + `,"emails":{"value":"a"}}`, want: "emails: multiValued is true"},
		"date":                      {body: head + `,"since":"today"}`, want: "since is not of type dateTime"},
		"reference":                 {body: head + `,"profileUrl":"a b"}`, want: "profileUrl is not of type reference"},
		"not JSON":                  {body: `{`, want: "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.check([]byte(test.body), test.query)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
