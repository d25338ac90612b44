package schema

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/strictjson"
)

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	value, err := strictjson.Decode([]byte(text), strictjson.Options{FoldNames: true})
	if err != nil {
		t.Fatal(err)
	}
	object, _ := value.(map[string]any)
	return object
}

var entra = Leniency{StringBooleans: true, BareValues: true, EmptyUnassigns: true, ForeignSchemas: true, ForeignSubAttributes: true}

func TestNormalize(t *testing.T) {
	for name, c := range map[string]struct {
		body     string
		leniency Leniency
		want     Document
	}{
		"names in their canonical spelling":                     {`{"USERNAME":"a","Name":{"GIVENNAME":"A"}}`, Leniency{}, Document{"userName": "a", "name": map[string]any{"givenName": "A"}}},
		"null, [] and {} are unassigned (RFC 7643 section 2.5)": {`{"userName":"a","title":null,"emails":[],"name":{},"displayName":""}`, Leniency{}, Document{"userName": "a"}},
		"read-only attributes are dropped":                      {`{"userName":"a","id":"1","meta":{"version":"x"},"groups":[{"value":"g"}]}`, Leniency{}, Document{"userName": "a"}},
		"a password is accepted and dropped":                    {`{"userName":"a","password":"x"}`, Leniency{}, Document{"userName": "a"}},
		"core attributes under the core URN":                    {`{"` + UserURN + `":{"userName":"a"}}`, Leniency{}, Document{"userName": "a"}},
		"an extension, its URN in any case":                     {`{"userName":"a","` + strings.ToUpper(EnterpriseURN) + `":{"department":"D"}}`, Leniency{}, Document{"userName": "a", EnterpriseURN: map[string]any{"department": "D"}}},
		"an extension that names its schema":                    {`{"userName":"a","` + EnterpriseURN + `":{"schemas":["` + EnterpriseURN + `"],"department":"D"}}`, Leniency{}, Document{"userName": "a", EnterpriseURN: map[string]any{"department": "D"}}},
		"an empty extension is dropped":                         {`{"userName":"a","` + EnterpriseURN + `":{}}`, Leniency{}, Document{"userName": "a"}},
		"Entra ID: booleans in quotes":                          {`{"userName":"a","active":"False","emails":[{"value":"x","primary":"True"}]}`, entra, Document{"userName": "a", "active": false, "emails": []any{map[string]any{"value": "x", "primary": true}}}},
		"Entra ID: the manager as an id":                        {`{"userName":"a","` + EnterpriseURN + `":{"manager":"7"}}`, entra, Document{"userName": "a", EnterpriseURN: map[string]any{"manager": map[string]any{"value": "7"}}}},
		"Entra ID: a manager with other members":                {`{"userName":"a","` + EnterpriseURN + `":{"manager":{"value":"7","mail":"m@x"}}}`, entra, Document{"userName": "a", EnterpriseURN: map[string]any{"manager": map[string]any{"value": "7"}}}},
		"Entra ID: no manager":                                  {`{"userName":"a","` + EnterpriseURN + `":{"manager":""}}`, entra, Document{"userName": "a"}},
		"Entra ID: a schema of its own":                         {`{"schemas":["` + UserURN + `","http://schemas.microsoft.com/x"],"userName":"a","http://schemas.microsoft.com/x":{}}`, entra, Document{"userName": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := User.Normalize(decode(t, c.body), c.leniency)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNormalizeErrors(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		is     scimerror.Type
		detail string
	}{
		"an unknown attribute":               {`{"userNam":"a"}`, scimerror.InvalidSyntax, `"userNam" is not an attribute of User`},
		"an unknown sub-attribute":           {`{"name":{"given":"A"}}`, scimerror.InvalidSyntax, `"name.given"`},
		"a prototype":                        {`{"__proto__":{"x":1}}`, scimerror.InvalidSyntax, `"__proto__"`},
		"an unknown schema":                  {`{"schemas":["` + UserURN + `","urn:x:y"]}`, scimerror.InvalidSyntax, "schemas[1]"},
		"schemas without the core one":       {`{"schemas":["` + EnterpriseURN + `"]}`, scimerror.InvalidSyntax, UserURN},
		"a number for a string":              {`{"userName":1}`, scimerror.InvalidValue, `userName: must be of type string, not "1"`},
		"a boolean in quotes":                {`{"active":"true"}`, scimerror.InvalidValue, "active: must be of type boolean"},
		"a string for an object":             {`{"name":"A"}`, scimerror.InvalidValue, "name: must be an object"},
		"a string for a list":                {`{"emails":"a"}`, scimerror.InvalidValue, "emails: must be a list"},
		"a string for an element":            {`{"emails":["a"]}`, scimerror.InvalidValue, "emails[0]: must be an object"},
		"two primary values":                 {`{"emails":[{"value":"a","primary":true},{"value":"b","primary":true}]}`, scimerror.InvalidValue, "emails: primary"},
		"invalid base64":                     {`{"x509Certificates":[{"value":"%"}]}`, scimerror.InvalidValue, "x509Certificates[0].value: must be base64"},
		"an attribute twice":                 {`{"userName":"a","` + UserURN + `":{"userName":"b"}}`, scimerror.InvalidSyntax, "userName: the attribute occurs twice"},
		"an extension that is not an object": {`{"` + EnterpriseURN + `":"x"}`, scimerror.InvalidValue, "must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := User.Normalize(decode(t, c.body), Leniency{})
			var e *scimerror.Error
			if !errors.As(err, &e) || e.Status != 400 || e.Type != c.is || !strings.Contains(e.Detail, c.detail) {
				t.Errorf("got %v, want %s: %s", err, c.is, c.detail)
			}
		})
	}
}

// TestKeepUserAttributes checks that a replacement with the extension of user attributes replaces all of them, also by none, and that
// one without it keeps them (docs/decisions/0070).
func TestKeepUserAttributes(t *testing.T) {
	user := User.With(Extension{Schema: &Schema{ID: UserAttributeURN, Attributes: []*Attribute{
		{Name: "city", Type: String, CaseExact: true, Mutability: ReadWrite, Returned: Default, IsUserAttribute: true},
		{Name: "tags", Type: String, MultiValued: true, Mutability: ReadWrite, Returned: Default, IsUserAttribute: true},
	}}})
	before := Document{"userName": "a", UserAttributeURN: map[string]any{"city": "Bonn", "tags": []any{"x"}}}
	without := Document{"userName": "a"}
	for body, want := range map[string]Document{
		`{"userName":"a"}`: before,
		`{"userName":"a","` + UserAttributeURN + `":null}`:                     before,
		`{"userName":"a","` + UserAttributeURN + `":{}}`:                       without,
		`{"userName":"a","` + UserAttributeURN + `":{"city":null,"tags":[]}}`:  without,
		`{"userName":"a","` + UserAttributeURN + `":{"city":"Ulm"}}`:           {"userName": "a", UserAttributeURN: map[string]any{"city": "Ulm"}},
		`{"userName":"a","` + UserAttributeURN + `":{"CITY":"Ulm","tags":[]}}`: {"userName": "a", UserAttributeURN: map[string]any{"city": "Ulm"}},
	} {
		after, err := user.Normalize(decode(t, body), Leniency{})
		if err == nil {
			err = user.Keep(before, after)
		}
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("%s: -want +got:\n%s", body, diff)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := User.Validate(Document{"displayName": "A"}); err == nil || !strings.Contains(err.Error(), "userName: is required") {
		t.Errorf("got %v", err)
	}
	if err := Group.Validate(Document{"displayName": "A", "members": []any{map[string]any{"type": "User"}}}); err == nil || !strings.Contains(err.Error(), "members.value: is required") {
		t.Errorf("got %v", err)
	}
	if err := User.Validate(Document{"userName": "a"}); err != nil {
		t.Error(err)
	}
}

// TestStandardSchemas checks that each attribute of the standard schemas has all of its characteristics
// (RFC 7643 section 8.7).
func TestStandardSchemas(t *testing.T) {
	var check func(path string, attributes []*Attribute)
	check = func(path string, attributes []*Attribute) {
		names := map[string]bool{}
		for _, a := range attributes {
			at := path + a.Name
			switch {
			case names[strings.ToLower(a.Name)]:
				t.Errorf("%s: occurs twice", at)
			case a.Hidden:
			case a.Description == "" || a.Mutability == "" || a.Returned == "" || a.Uniqueness == "" || a.Type == "":
				t.Errorf("%s: lacks a characteristic", at)
			case (a.Type == Complex) != (len(a.SubAttributes) > 0):
				t.Errorf("%s: has sub-attributes without type complex, or the reverse", at)
			case (a.Type == Reference) != (len(a.ReferenceTypes) > 0):
				t.Errorf("%s: has referenceTypes without type reference, or the reverse", at)
			}
			names[strings.ToLower(a.Name)] = true
			check(at+".", a.SubAttributes)
		}
	}
	for _, s := range []*Schema{userSchema, groupSchema, enterpriseSchema} {
		check(s.ID+":", s.Attributes)
	}
}

// FuzzNormalize checks that Normalize does not panic and is idempotent.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{
		`{"userName":"a","emails":[{"value":"x","primary":"True"}],"active":"false"}`, `{"name":{"givenName":null}}`,
		`{"` + EnterpriseURN + `":{"manager":"1"}}`, `{"schemas":["` + UserURN + `"],"x509Certificates":[{"value":"AA=="}]}`, `{"emails":"a","roles":["x"]}`,
		`{"` + EnterpriseURN + `":{"manager":{"value":"1","mail":"m@x"}}}`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, lenient bool) {
		value, err := strictjson.Decode(body, strictjson.Options{FoldNames: true})
		object, ok := value.(map[string]any)
		if err != nil || !ok {
			return
		}
		l := Leniency{}
		if lenient {
			l = entra
		}
		d, err := User.Normalize(object, l)
		if err != nil {
			var e *scimerror.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is not a SCIM error", err)
			}
			return
		}
		again, err := User.Normalize(d.Clone(), l)
		if err != nil {
			t.Fatalf("a normalized document is rejected: %v: %v", err, d)
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Errorf("not idempotent (-once +twice):\n%s", diff)
		}
	})
}
