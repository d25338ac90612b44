package patch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

func TestSet(t *testing.T) {
	for _, c := range []struct {
		name, ops string
		quirks    Quirks
		want      string // ids, or the scimType of the error
		changed   bool
		writes    int
		visits    bool // whether elements are scanned
	}{
		{"add", `{"op":"add","path":"members","value":[{"value":"d"},{"value":"a"}]}`, strict, "a b c d", true, 1, false},
		{"add of nothing", `{"op":"add","path":"members","value":[]}`, strict, "a b c", false, 0, false},
		{"add of an existing member", `{"op":"add","path":"members","value":[{"value":"a","$ref":"https://x/a"}]}`, strict, "a b c", false, 0, false},
		{"add without a value", `{"op":"add","path":"members","value":[{"display":"D"}]}`, strict, "invalidValue", false, 0, false},
		{"Okta's several operations", `{"op":"remove","path":"members[value eq \"a\"]"},{"op":"remove","path":"members[value eq \"b\"]"},{"op":"add","path":"members","value":[{"value":"d","display":"D"}]}`, okta, "c d", true, 3, false},
		{"remove twice", `{"op":"remove","path":"members[value eq \"a\"]"},{"op":"remove","path":"members[value eq \"a\"]"}`, okta, "b c", true, 1, false},
		{"remove of a missing member", `{"op":"remove","path":"members[value eq \"x\"]"}`, okta, "a b c", false, 0, false},
		{"remove and add again", `{"op":"remove","path":"members[value eq \"c\"]"},{"op":"add","path":"members","value":[{"value":"c","type":"User"}]}`, strict, "a b c", false, 2, false},
		{"remove by type", `{"op":"remove","path":"members[type eq \"User\" and value sw \"b\"]"}`, strict, "a c", true, 1, true},
		{"remove of all", `{"op":"remove","path":"members"}`, strict, "", true, 1, false},
		{"remove of all, and all again", `{"op":"remove","path":"members"},{"op":"add","path":"members","value":[{"value":"a","type":"User"},{"value":"b","type":"User"},{"value":"c","type":"User"}]}`, strict, "a b c", false, 4, false},
		{"Entra's remove", `{"op":"Remove","path":"members","value":[{"$ref":null,"value":"a"},{"$ref":null,"value":"x"}]}`, entra, "b c", true, 1, false},
		{"Entra's remove without the quirk", `{"op":"remove","path":"members","value":[{"$ref":null,"value":"a"}]}`, strict, "invalidValue", false, 0, false},
		{"Entra's remove of nothing", `{"op":"Remove","path":"members","value":[]}`, entra, "a b c", false, 0, false},
		{"Entra's remove of null", `{"op":"Remove","path":"members","value":null}`, entra, "", true, 1, false},
		{"remove of one with null", `{"op":"remove","path":"members[value eq \"b\"]","value":null}`, strict, "a c", true, 1, false},
		{"replace of all", `{"op":"replace","path":"members","value":[{"value":"c"},{"value":"d"}]}`, okta, "c d", true, 3, true},
		{"replace with the same", `{"op":"replace","path":"members","value":[{"value":"c"},{"value":"b"},{"value":"a"}]}`, okta, "a b c", false, 0, true},
		{"replace with none", `{"op":"replace","path":"members","value":[]}`, okta, "", true, 1, false},
		{"replace without a path", `{"op":"replace","value":{"displayName":"G","members":[{"value":"a"}]}}`, okta, "a", true, 2, true},
		{"display of one", `{"op":"add","path":"members[value eq \"a\"].display","value":"A"}`, strict, "a b c", true, 1, false},
		{"display of all", `{"op":"add","path":"members.display","value":"A"}`, strict, "a b c", true, 3, true},
		{"another value", `{"op":"replace","path":"members[value eq \"a\"].value","value":"d"}`, strict, "mutability", false, 0, false},
		{"add of an unmatched one", `{"op":"Add","path":"members[value eq \"d\"].display","value":"D"}`, entra, "a b c d", true, 1, false},
		{"add of an unmatched one, strictly", `{"op":"add","path":"members[value eq \"d\"].display","value":"D"}`, strict, "noTarget", false, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMembers("a", "b", "c")
			d := schema.Document{"displayName": "G", "members": m}
			changed, err := run(t, club, d, c.ops, c.quirks)
			visited := m.visits > 0
			got := m.ids()
			if err != nil {
				got = typeOf(t, err)
			}
			if got != c.want || changed != c.changed || m.writes != c.writes || visited != c.visits {
				t.Errorf("got %q (%v), changed %t, %d writes, visited %t", got, err, changed, m.writes, visited)
			}
			if d["members"] != any(m) {
				t.Error("the Set is no longer in the document")
			}
		})
	}
}

// TestUnreadableElements checks that only a change of all elements of a Set discards those that cannot be read.
func TestUnreadableElements(t *testing.T) {
	for ops, want := range map[string]bool{
		`{"op":"add","path":"members","value":[{"value":"d"}]}`:     false,
		`{"op":"remove","path":"members[value eq \"a\"]"}`:          false,
		`{"op":"replace","path":"displayName","value":"H"}`:         false,
		`{"op":"replace","path":"members","value":[{"value":"d"}]}`: true,
		`{"op":"replace","path":"members","value":[]}`:              true,
		`{"op":"remove","path":"members"}`:                          true,
	} {
		for _, ids := range [][]string{nil, {"a", "b"}} {
			m := newMembers(ids...)
			if _, err := run(t, club, schema.Document{"displayName": "G", "members": m}, ops, strict); err != nil {
				t.Fatal(err)
			}
			if m.discarded != want {
				t.Errorf("%s of %q: discarded is %t", ops, ids, m.discarded)
			}
		}
	}
}

func TestSetVisitsAreBounded(t *testing.T) {
	ids := make([]string, 50_000)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	d := schema.Document{"displayName": "G", "members": newMembers(ids...)}
	ops := strings.TrimSuffix(strings.Repeat(`{"op":"remove","path":"members[display pr]"},`, MaxOperations), ",")
	if _, err := run(t, club, d, ops, strict); typeOf(t, err) != "413" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkOneMemberOfMany(b *testing.B) {
	for _, size := range []int{10, 50_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			ids := make([]string, size)
			for i := range ids {
				ids[i] = fmt.Sprintf("2819c223-7f76-453a-919d-%012d", i)
			}
			m := newMembers(ids...)
			d := schema.Document{"displayName": "G", "members": m}
			ops, err := ParseRequest(request(b, `{"op":"add","path":"members","value":[{"value":"new"}]},{"op":"remove","path":"members[value eq \"new\"]"}`), strict)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := Apply(club, d, ops, strict); err != nil || m.Len() != size {
					b.Fatal(m.Len(), err)
				}
			}
		})
	}
}
