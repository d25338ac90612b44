package patch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/strictjson"
)

func quirksOf(bits uint16) Quirks {
	on := func(i int) bool { return bits>>i&1 == 1 }
	return Quirks{
		Leniency:   schema.Leniency{StringBooleans: on(0), BareValues: on(1), EmptyUnassigns: on(2), ForeignSchemas: on(3), ForeignSubAttributes: on(8)},
		CapitalOps: on(4), RemoveListed: on(5), CreateUnmatched: on(6), QualifiedKeys: on(7), ForeignMembers: on(9),
	}
}

var fuzzSeeds = []string{
	`{"op":"add","path":"emails[type eq \"work\"].primary","value":true}`,
	`{"op":"replace","path":"emails[type eq \"home\" and value ew \"org\"]","value":{"value":"x","primary":true}}`,
	`{"op":"Add","path":"phoneNumbers[type eq \"work\"].value","value":"1"}`,
	`{"op":"Remove","path":"emails","value":[{"$ref":null,"value":"babs@jensen.org"}]}`,
	`{"op":"Replace","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager","value":""}`,
	`{"op":"replace","value":{"name.givenName":"x","active":"False","emails[type eq \"work\"].value":"y","id":"1"}}`,
	`{"op":"remove","path":"name.givenName"},{"op":"remove","path":"name.familyName"}`,
	`{"op":"replace","path":"members","value":[{"value":"b"},{"value":"z"}]}`,
	`{"op":"remove","path":"members[value eq \"a\"]"},{"op":"add","path":"members","value":"q"}`,
	`{"op":"add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User","value":{"division":"D"}}`,
	`{"op":"add","name":"members","path":"members","value":[{"value":"z","mail":"z@x"}]}`,
}

// Parts of operations.
var (
	fuzzPaths = []string{
		"", "userName", "active", "name", "name.givenName", "emails", "emails.value", "emails.primary", "roles", "password", "id", "groups", "title",
		`emails[type eq "work"]`, `emails[type eq "work"].value`, `emails[type eq "home"].primary`, `emails[value pr].primary`, `emails[not (primary eq true)]`,
		`roles[primary eq "True"].value`, `phoneNumbers[type eq "work" and primary eq true].value`, `addresses[type eq "work"].locality`, `addresses[locality pr]`,
		enterprise, enterprise + ":manager", enterprise + ":manager.value", enterprise + ":employeeNumber", schema.UserURN, schema.UserURN + ":name.familyName",
		"displayName", "members", "members.display", "members.value", `members[value eq "a"]`, `members[value eq "a"].display`, `members[value eq "z"]`, `members[display pr]`,
	}
	fuzzValues = []string{
		`null`, `""`, `[]`, `{}`, `"x"`, `"True"`, `true`, `1`, `["x","y"]`, `{"value":"x"}`, `{"value":"x","primary":true}`, `[{"value":"a"},{"value":"z","$ref":null}]`,
		`[{"value":"x","primary":true},{"value":"y"}]`, `[{"value":"x","primary":true},{"value":"y","primary":"true"}]`, `{"type":"work"}`, `[{"type":"home"}]`,
		`{"givenName":null,"middleName":"M"}`, `{"employeeNumber":"1","manager":"m"}`, `{"value":"a","display":"A"}`, `{"value":"a","mail":"a@x"}`, `[{"value":"bjensen@example.com","type":"work","primary":true}]`,
		`{"name.givenName":"x","emails[type eq \"work\"].value":"y","id":"1","members":[{"value":"b"}]}`, `{"active":"False","displayName":"D","` + enterprise + `":{"division":"d"}}`,
	}
)

// FuzzApply generates operations from the input, one from every three bytes.
func FuzzApply(f *testing.F) {
	for i := range byte(30) {
		f.Add([]byte{i, i, i, i + 1, i * 7, i * 5, i + 2, i * 3, i * 11}, uint16(i)*35)
	}
	f.Fuzz(func(t *testing.T, choices []byte, bits uint16) {
		var ops []Operation
		for ; len(choices) >= 3 && len(ops) < 20; choices = choices[3:] {
			value, err := decodeValue(fuzzValues[int(choices[2])%len(fuzzValues)])
			if err != nil {
				t.Fatal(err)
			}
			path := fuzzPaths[int(choices[1])%len(fuzzPaths)]
			op := Operation{Op: []string{add, replace, remove}[choices[0]%3], Path: path, HasPath: path != ""}
			if op.Op != remove || choices[0] >= 0xc0 {
				op.Value, op.HasValue = value, true
			}
			ops = append(ops, op)
		}
		applyAll(t, ops, quirksOf(bits))
	})
}

// applyAll applies operations to a user, to a group with members in a list, and to one with a Set.
func applyAll(t *testing.T, ops []Operation, q Quirks) {
	apply(t, schema.User, document(t, schema.User, example), ops, q)
	apply(t, club, document(t, club, group), ops, q)
	apply(t, club, schema.Document{"displayName": "G", "members": newMembers("a", "b")}, ops, q)
	sameInSet(t, ops, q)
	for _, op := range ops { // the error of one is not to hide the others
		apply(t, schema.User, document(t, schema.User, example), []Operation{op}, q)
	}
}

// sameInSet checks that operations have the same result for members in a Set and in a list.
func sameInSet(t *testing.T, ops []Operation, q Quirks) {
	listed, held := document(t, club, group), schema.Document{"displayName": "Tour Guides", "members": newMembers()}
	for _, item := range listed["members"].([]any) {
		held["members"].(*members).Put(item.(map[string]any))
	}
	changed, alsoChanged := watch(listed), watch(held)
	err, alsoErr := Apply(club, listed, ops, q), Apply(club, held, ops, q)
	if typeOf(t, err) != typeOf(t, alsoErr) {
		t.Fatalf("%v in a list, %v in a Set", err, alsoErr)
	}
	if err != nil {
		return
	}
	got := map[string]any{}
	list, _ := listed["members"].([]any)
	for _, item := range list {
		got[item.(map[string]any)["value"].(string)] = item
	}
	want := map[string]any{}
	for element := range held["members"].(*members).All() {
		want[element["value"].(string)] = element
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != len(list) {
		t.Errorf("members (-Set +list):\n%s", diff)
	}
	// Removing a member and adding it again changes only the order of a list.
	if alsoChanged() && !changed() {
		t.Error("the Set has changed, but the list has not")
	}
}

// FuzzApplyText parses the input as operations.
func FuzzApplyText(f *testing.F) {
	for i, seed := range fuzzSeeds {
		f.Add(seed, uint16(0))
		f.Add(seed, uint16(0x3ff))
		f.Add(seed, uint16(1)<<(i%10))
	}
	f.Fuzz(func(t *testing.T, operations string, bits uint16) {
		body, err := strictjson.Decode([]byte(`{"schemas":["`+URN+`"],"Operations":[`+operations+`]}`), strictjson.Options{FoldNames: true})
		if err != nil {
			return
		}
		q := quirksOf(bits)
		ops, err := ParseRequest(body, q)
		if err != nil {
			return
		}
		applyAll(t, ops, q)
	})
}

// apply checks the invariants of every PATCH.
func apply(t *testing.T, kind *schema.ResourceType, d schema.Document, ops []Operation, q Quirks) {
	if err := Apply(kind, d, ops, q); err != nil {
		var refused *scimerror.Error
		if !errors.As(err, &refused) || refused.Status < 400 || refused.Status > 499 {
			t.Fatalf("not a SCIM error: %v", err)
		}
		return
	}
	text := (&schema.Resource{Type: kind, ID: "1", Document: d}).Render(nil, nil, nil)
	again, err := strictjson.Decode(text, strictjson.Options{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	normal, err := kind.Normalize(again.(map[string]any), schema.Leniency{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if _, set := d["members"].(schema.Set); set {
		return
	}
	if diff := cmp.Diff(d, normal); diff != "" {
		t.Errorf("not canonical (-document +normalized):\n%s", diff)
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(`{"schemas":["`+URN+`"],"Operations":[`+seed+`]}`, uint16(0))
		f.Add(`{"Operations":[`+seed+`]}`, uint16(0x3ff))
	}
	f.Add(`{"Operations":{}}`, uint16(0))
	f.Add(`[null]`, uint16(0x3ff))
	f.Fuzz(func(t *testing.T, text string, bits uint16) {
		body, err := strictjson.Decode([]byte(text), strictjson.Options{})
		if err != nil {
			return
		}
		ops, err := ParseRequest(body, quirksOf(bits))
		if err != nil {
			typeOf(t, err)
			return
		}
		if len(ops) == 0 || len(ops) > MaxOperations {
			t.Errorf("%d operations", len(ops))
		}
		for _, op := range ops {
			if !isKnown(op.Op) || !op.HasPath && op.Path != "" || !op.HasValue && op.Value != nil {
				t.Errorf("%+v", op)
			}
		}
	})
}
