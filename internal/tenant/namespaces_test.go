package tenant

import (
	"strings"
	"testing"
)

func TestNamespaces(t *testing.T) {
	all, some := Namespaces(nil), Namespaces{"a", "b"}
	if !all.Include("a") || !all.Include("") || all.Cache() != nil {
		t.Error("an empty list restricts")
	}
	if _, found := some.Cache()["b"]; !some.Include("b") || some.Include("c") || some.Include("") || !found || len(some.Cache()) != 2 {
		t.Errorf("a list of two: cached %v", some.Cache())
	}
	for want, namespaces := range map[string]Namespaces{
		`"A" is not the name`:                {"A"},
		`"" is not the name`:                 {"a", ""},
		`"a" is listed twice`:                {"a", "b", "a"},
		`"quoin" is the namespace of Quoin`:  {"a", "quoin"},
		`"a.b" is not the name`:              {"a.b"},
		`must be no more than 63 characters`: {strings.Repeat("a", 64)},
	} {
		if err := namespaces.Check("quoin"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", namespaces, err, want)
		}
	}
	if err := some.Check("quoin"); err != nil {
		t.Error(err)
	}
}
