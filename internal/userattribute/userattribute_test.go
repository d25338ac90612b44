package userattribute_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

var longText, longItem = strings.Repeat("ü", 513), strings.Repeat("ü", 129)

// parsed are values, with their canonical form or the words of the error.
var parsed = []struct {
	kind        v1alpha1.UserAttributeType
	value, want string // JSON; want is empty for an error that contains the words
	words       []string
}{
	{"string", `"EU"`, `"EU"`, nil},
	{"string", `""`, `""`, nil},
	{"string", `"` + longText[:1024] + `"`, `"` + longText[:1024] + `"`, nil},
	{"string", `"` + longText + `"`, ``, []string{"513", "512"}},
	{"string", `5`, ``, []string{"5", "string"}},
	{"string", `["EU"]`, ``, []string{`["EU"]`, "string"}},
	{"number", `5`, `5`, nil},
	{"number", `-0.50`, `-0.5`, nil},
	{"number", `1e3`, `1000`, nil},
	{"number", `1e400`, ``, []string{"1e400", "a number"}},
	{"number", `999999999999999872`, `999999999999999872`, nil},
	{"number", `9007199254740993`, `9007199254740993`, nil}, // not a float64
	{"number", `0.12345678901234567890`, `0.1234567890123456789`, nil},
	{"number", `1e-999999999`, ``, []string{"a number"}},
	{"number", `0e999999999`, `0`, nil},
	{"number", `1e18`, ``, []string{"1e18", "10^18"}},
	{"number", `1e-7`, `0.0000001`, nil},
	{"number", `1e-21`, ``, []string{"1e-21", "20 decimals"}},
	{"number", `-0`, `0`, nil},
	{"number", `"5"`, ``, []string{`"5"`, "number"}},
	{"boolean", `false`, `false`, nil},
	{"boolean", `"false"`, ``, []string{`"false"`, "true or false"}},
	{"boolean", `0`, ``, []string{"0", "boolean"}},
	{"string_array", `["EU","US"]`, `["EU","US"]`, nil},
	{"string_array", `[]`, `[]`, nil},
	{"string_array", `["EU",5]`, ``, []string{`["EU",5]`, "a list of strings"}},
	{"string_array", `"EU"`, ``, []string{"string_array"}},
	{"string_array", `["` + longItem + `"]`, ``, []string{"129", "128"}},
	{"string_array", `[` + strings.Repeat(`"a",`, 256) + `"a"]`, ``, []string{"257", "256"}},
	{"number_array", `[1, 2.5]`, `[1,2.5]`, nil},
	{"number_array", `[]`, `[]`, nil},
	{"number_array", `[1, null]`, ``, []string{"number_array"}},
	{"number_array", `{"a":1}`, ``, []string{"number_array"}},
	{"date", `"2026-01-01"`, ``, []string{"date"}},
	{"string", `null`, ``, []string{"null"}},
}

func TestParse(t *testing.T) {
	for _, c := range parsed {
		t.Run(string(c.kind)+" "+c.value[:min(len(c.value), 20)], func(t *testing.T) {
			content, err := userattribute.Parse(c.kind, decode(t, c.value))
			if c.want == "" {
				if err == nil {
					t.Fatalf("accepted as %+v", content)
				}
				for _, word := range c.words {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q does not contain %q", err, word)
					}
				}
				if len(err.Error()) > 300 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(userattribute.JSON(&content)); string(got) != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := userattribute.TypeOf(&content); got != c.kind {
				t.Errorf("type %s", got)
			}
		})
	}
}

func TestParseText(t *testing.T) {
	for _, c := range []struct {
		kind       v1alpha1.UserAttributeType
		text, want string // want is the canonical text; empty for an error
	}{
		{"string", "EU", "EU"}, {"string", "5", "5"}, {"string", `"`, `"`},
		{"number", " 5 ", "5"}, {"number", "five", ""}, {"number", "5 6", ""}, {"number", "", ""}, {"number", "5]", ""},
		{"boolean", "true", "true"}, {"boolean", "True", ""},
		{"string_array", `["a", "b"]`, `["a","b"]`}, {"string_array", "a,b", ""},
		{"number_array", "[1,2]", "[1,2]"}, {"number_array", "[1", ""},
	} {
		content, err := userattribute.ParseText(c.kind, c.text)
		switch {
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), string(c.kind))):
			t.Errorf("%s %q: %+v, %v", c.kind, c.text, content, err)
		case c.want != "" && err != nil:
			t.Errorf("%s %q: %v", c.kind, c.text, err)
		case c.want != "" && userattribute.Text(&content) != c.want:
			t.Errorf("%s %q: %q", c.kind, c.text, userattribute.Text(&content))
		}
	}
}

// FuzzParseText: what is accepted has the type, is within the limits of the schema, and is read again as the same.
func FuzzParseText(f *testing.F) {
	for _, seed := range []string{"EU", "5", "-1.5e3", "true", `["a","b"]`, `[1,2]`, "[", "null", "{}", "\xff", "1e999", `["\ud800"]`} {
		for i := range userattribute.Types {
			f.Add(i, seed)
		}
	}
	f.Fuzz(func(t *testing.T, i int, text string) {
		kind := userattribute.Types[uint(i)%uint(len(userattribute.Types))]
		content, err := userattribute.ParseText(kind, text)
		if err != nil {
			return
		}
		again, err := userattribute.ParseText(kind, userattribute.Text(&content))
		if err != nil {
			t.Fatalf("%q: %v", userattribute.Text(&content), err)
		}
		if diff := cmp.Diff(content, again); diff != "" || userattribute.TypeOf(&content) != kind {
			t.Errorf("%q as %s (-first +again):\n%s", text, kind, diff)
		}
		var stored v1alpha1.UserAttributeContent
		data, err := json.Marshal(content)
		if err == nil {
			err = json.Unmarshal(data, &stored)
		}
		if diff := cmp.Diff(content, stored); diff != "" || err != nil {
			t.Errorf("stored as %s: %v\n%s", data, err, diff)
		}
	})
}

func attribute(name, kind, defaultValue string) *v1alpha1.UserAttribute {
	a := &v1alpha1.UserAttribute{Spec: v1alpha1.UserAttributeSpec{Name: v1alpha1.UserAttributeName(name), Type: v1alpha1.UserAttributeType(kind)}}
	a.Name = userattribute.ObjectName(a.Spec.Name)
	if defaultValue != "" {
		content, err := userattribute.ParseText(a.Spec.Type, defaultValue)
		if err != nil {
			panic(err)
		}
		a.Spec.DefaultValue = &content
	}
	return a
}

func TestResolve(t *testing.T) {
	attributes := []*v1alpha1.UserAttribute{
		attribute("region", "string", "EU"), attribute("quota", "number", "5"), attribute("internal", "boolean", ""),
		attribute("stores", "string_array", `["all"]`), attribute("levels", "number_array", "[1]"),
	}
	value := func(name, kind, text string) v1alpha1.UserAttributeValue {
		return v1alpha1.UserAttributeValue{Name: v1alpha1.UserAttributeName(name), UserAttributeContent: *attribute(name, kind, text).Spec.DefaultValue}
	}
	for name, c := range map[string]struct {
		values []v1alpha1.UserAttributeValue
		want   string
	}{
		"defaults": {nil, `{"levels":[1],"quota":5,"region":"EU","stores":["all"]}`},
		"values": {
			[]v1alpha1.UserAttributeValue{value("region", "string", "US"), value("internal", "boolean", "false"), value("stores", "string_array", "[]")},
			`{"internal":false,"levels":[1],"quota":5,"region":"US","stores":[]}`,
		},
		"another type counts as absent": {
			[]v1alpha1.UserAttributeValue{value("quota", "string", "9"), value("internal", "string", "true")},
			`{"levels":[1],"quota":5,"region":"EU","stores":["all"]}`,
		},
		"without an attribute": {[]v1alpha1.UserAttributeValue{value("gone", "string", "x"), value("Region", "string", "x")}, `{"levels":[1],"quota":5,"region":"EU","stores":["all"]}`},
		"an empty list of a cache": {
			[]v1alpha1.UserAttributeValue{{Name: "stores", UserAttributeContent: v1alpha1.UserAttributeContent{StringArray: new([]string)}}},
			`{"levels":[1],"quota":5,"region":"EU","stores":[]}`,
		},
	} {
		if got, _ := json.Marshal(userattribute.Resolve(attributes, c.values)); string(got) != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestInEffect(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []*v1alpha1.UserAttribute
	for i := range userattribute.MaxPerAccount + 2 {
		a := attribute(fmt.Sprintf("a%03d", 999-i), "string", "")
		a.CreationTimestamp = metav1.NewTime(start.Add(time.Duration(i) * time.Second))
		all = append(all, a)
	}
	got := userattribute.InEffect(all)
	if len(got) != userattribute.MaxPerAccount || got[0].Name != "a936" || got[len(got)-1].Name != "a999" {
		t.Errorf("%d, from %s to %s", len(got), got[0].Name, got[len(got)-1].Name)
	}
	all[0].DeletionTimestamp = &metav1.Time{Time: start}
	if got := userattribute.InEffect(all); got[0].Name != "a935" || got[len(got)-1].Name != "a998" {
		t.Errorf("without the deleted one: from %s to %s", got[0].Name, got[len(got)-1].Name)
	}
}

func TestCheckSize(t *testing.T) {
	var values []v1alpha1.UserAttributeValue
	for range 8 {
		values = append(values, v1alpha1.UserAttributeValue{Name: "a", UserAttributeContent: v1alpha1.UserAttributeContent{String: new(strings.Repeat("x", 509))}})
	}
	if err := userattribute.CheckSize(values); err != nil {
		t.Error(err)
	}
	values[0].Name = "ab"
	if err := userattribute.CheckSize(values); err == nil || !strings.Contains(err.Error(), "4097") || !strings.Contains(err.Error(), "4096") {
		t.Error(err)
	}
}
