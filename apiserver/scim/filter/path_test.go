package filter

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// TestParsePath checks paths of RFC 7644 section 3.5.2, figure 7, and of Entra ID.
func TestParsePath(t *testing.T) {
	work := equal(name("type"), "work")
	for s, want := range map[string]Path{
		`members`:                                       {Name: "members"},
		`name.familyName`:                               {Name: "name", Sub: "familyName"},
		`addresses[type eq "work"]`:                     {Name: "addresses", Filter: work},
		`addresses[type eq "work"].locality`:            {Name: "addresses", Filter: work, Sub: "locality"},
		`members[value eq "2819c223-7f76"].displayName`: {Name: "members", Filter: equal(name("value"), "2819c223-7f76"), Sub: "displayName"},
		`members.$ref`:                                  {Name: "members", Sub: "$ref"},
		` active `:                                      {Name: "active"},
		`not`:                                           {Name: "not"},
		schema.UserURN + `:emails[type eq "work"].value`: {URN: schema.UserURN, Name: "emails", Filter: work, Sub: "value"},
		schema.EnterpriseURN + `:manager`:                {URN: schema.EnterpriseURN, Name: "manager"},
		schema.EnterpriseURN:                             {URN: "urn:ietf:params:scim:schemas:extension:enterprise:2.0", Name: "User"},
		`urn:acme:1.2.3`:                                 {URN: "urn:acme", Name: "1.2", Sub: "3"},
		`http://schemas.example.com/2.0/Group:x`:         {URN: "http://schemas.example.com/2.0/Group", Name: "x"},
	} {
		got, err := ParsePath(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if diff := cmp.Diff(want, got, sameExpression); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s, diff)
		}
		pathRoundTrip(t, got)
	}
}

func pathRoundTrip(t *testing.T, p Path) {
	t.Helper()
	printed := p.String()
	if len(printed) > MaxLength {
		return
	}
	again, err := ParsePath(printed)
	if err != nil {
		t.Fatalf("printed %s: %v", printed, err)
	}
	if diff := cmp.Diff(p, again, sameExpression); diff != "" {
		t.Errorf("printed %s (-want +got):\n%s", printed, diff)
	}
}

func TestParsePathErrors(t *testing.T) {
	for s, want := range map[string]string{
		``:                          `at position 1: found the end, expected a path`,
		`a b`:                       `at position 3: found "b", expected the end`,
		`a..b`:                      `at position 1: found "a..b", expected an attribute`,
		`urn:x:`:                    `at position 1: found "urn:x:", expected an attribute`,
		`emails[type eq "work"]x`:   `at position 23: found "x", expected the end`,
		`emails[type eq "work"].`:   `at position 24: found the end, expected a sub-attribute`,
		`emails[type eq].value`:     `at position 15: found "]", expected a value`,
		`emails[0]`:                 `at position 8: found "0", expected an attribute`,
		nest("a[", "a pr", "]", 40): `at position 66: nested more than 32 deep`,
	} {
		_, err := ParsePath(s)
		t.Run(s, func(t *testing.T) { wantError(t, err, 400, scimerror.InvalidPath, want) })
	}
}

// TestParseAttribute checks attribute notation (RFC 7644 section 3.10).
func TestParseAttribute(t *testing.T) {
	got, err := ParseAttribute(schema.EnterpriseURN + ":manager.displayName")
	want := Path{URN: schema.EnterpriseURN, Name: "manager", Sub: "displayName"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = ParseAttribute(`emails[type eq "work"]`)
	wantError(t, err, 400, scimerror.InvalidPath, `at position 7: found "[", expected an attribute without a value filter`)
	_, err = ParseAttribute(`a,b`)
	wantError(t, err, 400, scimerror.InvalidPath, `at position 2: found ",", expected the end`)
}

func TestPathResolve(t *testing.T) {
	acme := &schema.Schema{ID: "urn:acme:scim:1.2.3", Attributes: []*schema.Attribute{{Name: "badge-no_1", Type: schema.String}}}
	user := schema.User.With(schema.Extension{Schema: acme})
	for s, want := range map[string]string{
		`USERNAME`:                       `userName`,
		`Name.GivenName`:                 `name.givenName`,
		`groups.$REF`:                    `groups.$ref`,
		`meta.created`:                   `meta.created`,
		`externalid`:                     `externalId`,
		schema.UserURN + `:emails.value`: `emails.value`,
		`URN:IETF:params:scim:schemas:extension:enterprise:2.0:user:Manager.Value`: schema.EnterpriseURN + `:manager.value`,
		schema.EnterpriseURN:             schema.EnterpriseURN,
		`URN:acme:scim:1.2.3`:            `urn:acme:scim:1.2.3`,
		`urn:acme:scim:1.2.3:badge-no_1`: `urn:acme:scim:1.2.3:badge-no_1`,
		`nope`:                           ``,
		`userName.x`:                     ``,
		`employeeNumber`:                 ``,
		`urn:other:2.0:User:userName`:    ``,
		schema.UserURN:                   ``,
		schema.EnterpriseURN + `[x pr]`:  ``,
	} {
		p, err := ParsePath(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		ref, ok := p.Resolve(user)
		if ref.String() != want || ok != (want != "") {
			t.Errorf("%s: got %q %v, want %q", s, ref, ok, want)
		}
	}
}
