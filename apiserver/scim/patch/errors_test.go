package patch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/strictjson"
)

func decodeValue(text string) (any, error) {
	return strictjson.Decode([]byte(text), strictjson.Options{})
}

func TestErrors(t *testing.T) {
	withListed, withKeys := Quirks{RemoveListed: true}, Quirks{QualifiedKeys: true}
	for _, c := range []struct {
		name   string
		quirks Quirks
		ops    string
		want   string // scimType and a part of the detail
	}{
		{"remove without a path", strict, `{"op":"remove"}`, "noTarget Operations[0].path"},
		{"remove with a value", strict, `{"op":"remove","path":"emails","value":[{"value":"x"}]}`, "invalidValue Operations[0].value"},
		{"remove of a required attribute", strict, `{"op":"remove","path":"userName"}`, "mutability Operations[0].path: userName"},
		{"no user name left", strict, `{"op":"replace","path":"userName","value":null}`, "invalidValue userName"},
		{"no value", strict, `{"op":"add","path":"title"}`, "invalidValue Operations[0].value"},
		{"a read-only attribute", strict, `{"op":"replace","path":"title","value":"T"},{"op":"replace","path":"id","value":"1"}`, "mutability Operations[1].path: id"},
		{"a read-only sub-attribute", strict, `{"op":"replace","path":"meta.version","value":"1"}`, "mutability"},
		{"a read-only sub-attribute of an extension", strict, `{"op":"add","path":"` + enterprise + `:manager.displayName","value":"M"}`, "mutability"},
		{"groups", strict, `{"op":"remove","path":"groups[value eq \"1\"]"}`, "mutability"},
		{"schemas", strict, `{"op":"add","path":"schemas","value":["x"]}`, "mutability"},
		{"an unknown path", strict, `{"op":"add","path":"__proto__.x","value":1}`, "invalidPath Operations[0].path"},
		{"an unknown sub-attribute", strict, `{"op":"add","path":"name.x","value":1}`, "invalidPath"},
		{"an unknown extension", strict, `{"op":"add","path":"urn:x:y","value":1}`, "invalidPath"},
		{"an empty path", strict, `{"op":"add","path":"","value":1}`, "invalidPath"},
		{"half a path", strict, `{"op":"add","path":"emails[type eq","value":1}`, "invalidPath"},
		{"brackets on one value", strict, `{"op":"add","path":"name[givenName eq \"x\"].familyName","value":"x"}`, "invalidPath"},
		{"an unknown attribute in brackets", strict, `{"op":"add","path":"emails[x eq \"y\"]","value":{"value":"x"}}`, "invalidFilter Operations[0].path"},
		{"an unknown key", strict, `{"op":"add","value":{"x":1}}`, "invalidSyntax Operations[0].value"},
		{"a key that is a path", strict, `{"op":"add","value":{"name.givenName":"G"}}`, "invalidSyntax"},
		{"a key that is not a path", withKeys, `{"op":"add","value":{"name.x":"G"}}`, "invalidSyntax"},
		{"a foreign key", strict, `{"op":"add","value":{"urn:x:y":1}}`, "invalidSyntax"},
		{"an unknown key of an extension", strict, `{"op":"add","value":{"` + enterprise + `":{"x":1}}}`, "invalidSyntax"},
		{"an extension that names another schema", strict, `{"op":"add","value":{"` + enterprise + `":{"schemas":["` + schema.UserURN + `"],"division":"D"}}}`, "invalidSyntax Operations[0].value"},
		{"an extension that is not an object", strict, `{"op":"add","path":"` + enterprise + `","value":"x"}`, "invalidValue"},
		{"an extension with a value to remove", withListed, `{"op":"remove","path":"` + enterprise + `","value":{"x":1}}`, "invalidValue"},
		{"no object without a path", strict, `{"op":"add","value":"x"}`, "invalidValue Operations[0].value"},
		{"nothing matched by replace", strict, `{"op":"replace","path":"emails[type eq \"x\"].value","value":"v"}`, "noTarget Operations[0].path"},
		{"nothing matched by add", strict, `{"op":"add","path":"emails[type eq \"x\"]","value":{"value":"v"}}`, "noTarget"},
		{"more than eq", entra, `{"op":"add","path":"emails[type eq \"x\" or type eq \"y\"].value","value":"v"}`, "noTarget"},
		{"terms that cannot be both", entra, `{"op":"add","path":"emails[type eq \"x\" and type eq \"y\"].value","value":"v"}`, "noTarget"},
		{"a wrong type", strict, `{"op":"replace","path":"active","value":"True"}`, "invalidValue Operations[0].value: active"},
		{"a wrong type in an element", strict, `{"op":"add","path":"emails","value":[{"value":1}]}`, "invalidValue emails[0].value"},
		{"a string for an object", strict, `{"op":"add","path":"` + enterprise + `:manager","value":"m"}`, "invalidValue"},
		{"two primary values", strict, `{"op":"add","path":"emails","value":[{"value":"1","primary":true},{"value":"2","primary":true}]}`, "invalidValue primary"},
		{"two made primary", strict, `{"op":"add","path":"emails[value pr].primary","value":true}`, "invalidValue primary"},
		{"a capitalized operation", strict, `{"op":"Add","path":"title","value":"T"}`, "invalidSyntax Operations[0].op"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := run(t, schema.User, document(t, schema.User, example), c.ops, c.quirks)
			want := strings.SplitN(c.want, " ", 2)
			if got := typeOf(t, err); got != want[0] {
				t.Fatalf("got %q (%v), want %q", got, err, want[0])
			}
			if len(want) > 1 && !strings.Contains(err.Error(), want[1]) {
				t.Errorf("%q does not have %q", err, want[1])
			}
		})
	}
}

func TestImmutableMembers(t *testing.T) {
	for _, ops := range []string{
		`{"op":"replace","path":"members[value eq \"a\"].value","value":"c"}`,
		`{"op":"remove","path":"members[value eq \"a\"].value"}`,
		`{"op":"remove","path":"members.value"}`,
		`{"op":"add","path":"members[value eq \"a\"]","value":{"value":"c"}}`,
		`{"op":"replace","path":"members[value eq \"a\"].display","value":"other"}`,
	} {
		d := document(t, club, group)
		if _, err := run(t, club, d, ops, entra); typeOf(t, err) != "mutability" {
			t.Errorf("%s: got %v", ops, err)
		}
	}
	d := document(t, club, group)
	changed, err := run(t, club, d, `{"op":"add","path":"members[value eq \"b\"].display","value":"B"}`, strict)
	if err != nil || !changed {
		t.Errorf("cannot set an immutable sub-attribute without a value: %v", err)
	}
}

// custom has kinds of attributes that the standard schemas do not use.
var custom = schema.User.With(schema.Extension{Schema: &schema.Schema{ID: "urn:example:2.0:Custom", Attributes: []*schema.Attribute{
	{Name: "tags", Type: schema.String, MultiValued: true, Mutability: schema.ReadWrite},
	{Name: "badge", Type: schema.Integer, Mutability: schema.Immutable},
	{Name: "keys", Type: schema.String, MultiValued: true, Mutability: schema.Immutable},
	{Name: "state", Type: schema.String, Mutability: schema.ReadOnly},
	{Name: "shifts", Type: schema.Complex, Mutability: schema.ReadWrite, SubAttributes: []*schema.Attribute{
		{Name: "days", Type: schema.String, MultiValued: true, Mutability: schema.ReadWrite},
		{Name: "site", Type: schema.String, Mutability: schema.ReadWrite, Required: true},
	}},
}}})

func TestCustomExtension(t *testing.T) {
	const urn = "urn:example:2.0:Custom"
	const before = `{"userName":"u","urn:example:2.0:Custom":{"tags":["a","b"],"badge":1,"keys":["k"],"shifts":{"days":["mo"],"site":"S"}}}`
	for _, c := range []struct{ ops, want, fails string }{
		{`{"op":"add","path":"` + urn + `:tags","value":["b","c"]}`, `{"tags":["a","b","c"],"badge":1,"keys":["k"],"shifts":{"days":["mo"],"site":"S"}}`, ""},
		{`{"op":"remove","path":"` + urn + `:tags[value eq \"a\"]"}`, `{"tags":["b"],"badge":1,"keys":["k"],"shifts":{"days":["mo"],"site":"S"}}`, ""},
		{`{"op":"replace","path":"` + urn + `:tags[value eq \"a\"]","value":"x"}`, `{"tags":["x","b"],"badge":1,"keys":["k"],"shifts":{"days":["mo"],"site":"S"}}`, ""},
		{`{"op":"Remove","path":"` + urn + `:tags","value":["A"]}`, `{"tags":["b"],"badge":1,"keys":["k"],"shifts":{"days":["mo"],"site":"S"}}`, ""},
		{`{"op":"add","path":"` + urn + `:shifts.days","value":["mo","tu"]}`, `{"tags":["a","b"],"badge":1,"keys":["k"],"shifts":{"days":["mo","tu"],"site":"S"}}`, ""},
		{`{"op":"Remove","path":"` + urn + `:shifts.days","value":["mo"]}`, `{"tags":["a","b"],"badge":1,"keys":["k"],"shifts":{"site":"S"}}`, ""},
		{`{"op":"add","path":"` + urn + `:badge","value":1},{"op":"add","path":"` + urn + `:keys","value":["k"]}`, `{"tags":["a","b"],"badge":1,"keys":["k"],"shifts":{"days":["mo"],"site":"S"}}`, ""},
		{`{"op":"add","path":"` + urn + `:badge","value":2}`, "", "mutability"},
		{`{"op":"remove","path":"` + urn + `:badge"}`, "", "mutability"},
		{`{"op":"remove","path":"` + urn + `"}`, "", "mutability"},
		{`{"op":"add","path":"` + urn + `:keys","value":["l"]}`, "", "mutability"},
		{`{"op":"remove","path":"` + urn + `:shifts.site"}`, "", "mutability"},
		{`{"op":"add","path":"` + urn + `:state","value":"s"}`, "", "mutability"},
	} {
		d := document(t, custom, before)
		_, err := run(t, custom, d, c.ops, entra)
		if got := typeOf(t, err); got != c.fails {
			t.Errorf("%s: got %v", c.ops, err)
		}
		if c.fails != "" {
			continue
		}
		want := document(t, custom, `{"userName":"u","urn:example:2.0:Custom":`+c.want+`}`)
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.ops, diff)
		}
	}
}

func TestParseRequest(t *testing.T) {
	op := `{"op":"add","path":"title","value":"T"}`
	capital := Quirks{CapitalOps: true}
	many := strings.TrimSuffix(strings.Repeat(op+",", MaxOperations), ",")
	for _, c := range []struct {
		name, body string
		quirks     Quirks
		want       string
	}{
		{"plain", `{"schemas":["` + URN + `"],"Operations":[` + op + `]}`, strict, ""},
		{"names in any case", `{"SCHEMAS":["` + strings.ToUpper(URN) + `"],"operations":[{"OP":"add","Path":"title","VALUE":"T"}]}`, strict, ""},
		{"no schemas", `{"Operations":[` + op + `]}`, strict, ""},
		{"schemas of null", `{"schemas":null,"Operations":[` + op + `]}`, strict, ""},
		{"an empty list of schemas", `{"schemas":[],"Operations":[` + op + `]}`, strict, ""},
		{"schemas that are no list", `{"schemas":"` + URN + `","Operations":[` + op + `]}`, strict, "invalidSyntax"},
		{"other schemas", `{"schemas":["x"],"Operations":[` + op + `]}`, capital, "invalidSyntax"},
		{"no operations", `{"schemas":["` + URN + `"],"Operations":[]}`, strict, "invalidSyntax"},
		{"operations absent", `{"schemas":["` + URN + `"]}`, strict, "invalidSyntax"},
		{"not an object", `[]`, strict, "invalidSyntax"},
		{"an operation that is not an object", `{"schemas":["` + URN + `"],"Operations":[1]}`, strict, "invalidSyntax"},
		{"an unknown member, Entra", `{"schemas":["` + URN + `"],"id":"1","Operations":[{"op":"add","name":"title","path":"title","value":"T"}]}`, Quirks{ForeignMembers: true}, ""},
		{"an unknown member", `{"schemas":["` + URN + `"],"Operations":[{"op":"add","name":"title","value":"T"}]}`, strict, "invalidSyntax"},
		{"no op", `{"schemas":["` + URN + `"],"Operations":[{"path":"title","value":"T"}]}`, strict, "invalidSyntax"},
		{"an unknown op", `{"schemas":["` + URN + `"],"Operations":[{"op":"move","path":"title"}]}`, capital, "invalidSyntax"},
		{"a path that is not a string", `{"schemas":["` + URN + `"],"Operations":[{"op":"add","path":1,"value":"T"}]}`, strict, "invalidSyntax"},
		{"the most operations", `{"schemas":["` + URN + `"],"Operations":[` + many + `]}`, strict, ""},
		{"too many operations", `{"schemas":["` + URN + `"],"Operations":[` + many + `,` + op + `]}`, strict, "413"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ops, err := ParseRequest(decode(t, c.body), c.quirks)
			if got := typeOf(t, err); got != c.want {
				t.Fatalf("got %v", err)
			}
			want := Operation{Op: "add", Path: "title", HasPath: true, Value: "T", HasValue: true}
			if err == nil && !cmp.Equal(want, ops[0]) {
				t.Errorf("got %+v", ops[0])
			}
		})
	}
	ops, err := ParseRequest(decode(t, `{"schemas":["`+URN+`"],"Operations":[{"op":"add","path":null,"value":null}]}`), strict)
	if err != nil || ops[0].HasPath || !ops[0].HasValue {
		t.Errorf("null is no path, but a value: %+v, %v", ops, err)
	}
}

// TestErrorKeepsOriginal checks that an error does not change the original of a cloned document.
func TestErrorKeepsOriginal(t *testing.T) {
	original := document(t, schema.User, example)
	var ops []string
	for _, path := range []string{"emails", "name", "roles", "addresses", enterprise} {
		ops = append(ops, fmt.Sprintf(`{"op":"remove","path":%q}`, path))
	}
	ops = append(ops, `{"op":"replace","path":"emails.primary","value":true}`, `{"op":"add","path":"nothing","value":1}`)
	for i := range ops {
		copied := original.Clone()
		changed, err := run(t, schema.User, copied, ops[i]+","+ops[len(ops)-1], strict)
		if err == nil || changed {
			t.Errorf("%s: changed is %t, error %v", ops[i], changed, err)
		}
	}
	if diff := cmp.Diff(document(t, schema.User, example), original); diff != "" {
		t.Errorf("the original has changed (-want +got):\n%s", diff)
	}
}
