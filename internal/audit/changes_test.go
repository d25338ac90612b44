package audit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/masking"
)

func TestDiff(t *testing.T) {
	type spec map[string]any
	for name, test := range map[string]struct {
		before, after any
		want          string
	}{
		"same":                          {spec{"a": 1}, spec{"a": 1}, `{}`},
		"changed":                       {spec{"a": 1, "b": 2}, spec{"a": 1, "b": "<2>"}, `{"b":{"before":2,"after":"<2>"}}`},
		"added and removed":             {spec{"a": 1}, spec{"b": 2}, `{"a":{"before":1},"b":{"after":2}}`},
		"nested":                        {spec{"a": spec{"b": 1, "c": 2}}, spec{"a": spec{"b": 1, "c": 3}}, `{"a.c":{"before":2,"after":3}}`},
		"lists are compared as a whole": {spec{"a": []int{1, 2}}, spec{"a": []int{2}}, `{"a":{"before":[1,2],"after":[2]}}`},
		"created":                       {nil, spec{"a": spec{"b": 1}}, `{"a.b":{"after":1}}`},
		"deleted":                       {spec{"a": 1}, nil, `{"a":{"before":1}}`},
		"null is absent":                {spec{"a": nil}, spec{}, `{}`},
		"emptied":                       {spec{"a": spec{"b": 1}}, spec{"a": spec{}}, `{"a":{"after":{}},"a.b":{"before":1}}`},
		"large numbers":                 {spec{"a": json.Number("12345678901234567890")}, spec{"a": json.Number("12345678901234567891")}, `{"a":{"before":12345678901234567890,"after":12345678901234567891}}`},
	} {
		t.Run(name, func(t *testing.T) {
			changes, err := Diff(test.before, test.after)
			if err != nil {
				t.Fatal(err)
			}
			got, err := masking.EncodeJSON(changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := Diff(func() {}, nil); err == nil {
		t.Error("a value without JSON must be an error")
	}
}

func TestLongChangesAreTruncatedAsJSON(t *testing.T) {
	long := strings.Repeat("é", maxText)
	for name, test := range map[string]struct {
		given any
		want  string // a part of the result
	}{
		"a long string":       {map[string]any{"a": long}, ellipsis},
		"a long list":         {map[string]any{"a": strings.Split(strings.Repeat("word ", 9000), " "), "b": 1}, `{"a":"[CUT: `},
		"fields after it":     {map[string]any{"a": strings.Split(strings.Repeat("word ", 9000), " "), "b": 1}, `"b":1}`},
		"a list alone":        {strings.Split(strings.Repeat("word ", 9000), " "), `"[CUT: `},
		"many fields":         {manyFields(5000), `"[CUT]":"`},
		"many fields, nested": {map[string]any{"a": manyFields(2000), "b": manyFields(2000), "c": true}, `"c":true`},
		"a long name":         {map[string]any{strings.Repeat("n", 5000): 1}, ellipsis + `":1`},
		"far too long":        {strings.Repeat("x", maxChangesInput), `"[CUT: `},
	} {
		t.Run(name, func(t *testing.T) {
			given, err := json.Marshal(test.given)
			if err != nil {
				t.Fatal(err)
			}
			got := prepareChanges(given)
			if !json.Valid(got) || len(got) > maxChanges || !strings.Contains(string(got), test.want) {
				t.Errorf("%d bytes, valid %v, want %q in %s", len(got), json.Valid(got), test.want, got)
			}
		})
	}
	if got := prepareChanges(json.RawMessage(" \n")); got != nil {
		t.Errorf("no changes became %s", got)
	}
}

func manyFields(n int) map[string]any {
	fields := map[string]any{}
	for i := range n {
		fields[fmt.Sprintf("field%d", i)] = strings.Repeat("x", i%50)
	}
	return fields
}

// TestAllChangesFit tries random JSON near the limit.
func TestAllChangesFit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		given, err := json.Marshal(map[string]any{"a": randomValue(random, 1), "b": randomValue(random, 1)})
		if err != nil {
			t.Fatal(err)
		}
		if got := prepareChanges(given); !json.Valid(got) || len(got) > maxChanges {
			t.Fatalf("%d bytes became %d, valid %v", len(given), len(got), json.Valid(got))
		}
	}
}

func randomValue(random *rand.Rand, depth int) any {
	switch kind := random.IntN(6); {
	case kind < 3 && depth < 3:
		object := map[string]any{}
		for range random.IntN(30) {
			object[strings.Repeat(string(rune('a'+random.IntN(26))), random.IntN(300))] = randomValue(random, depth+1)
		}
		return object
	case kind == 3 && depth < 3:
		list := make([]any, random.IntN(30))
		for i := range list {
			list[i] = randomValue(random, depth+1)
		}
		return list
	case kind == 4:
		return random.IntN(1000)
	}
	return strings.Repeat("\u00e9\"\n\x01x", random.IntN(500))
}

func BenchmarkPrepareChanges(b *testing.B) {
	given := json.RawMessage(`{"spec.releaseChannelVersion":{"before":"1.2.3","after":"1.2.4"},"spec.hold":{"before":false,"after":true}}`)
	for b.Loop() {
		prepareChanges(given)
	}
}

func BenchmarkPrepareLongestChanges(b *testing.B) {
	given, err := json.Marshal(map[string]string{"a": strings.Repeat("ab.cd: e=f gh ", maxChangesInput/16)})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(given)))
	for b.Loop() {
		prepareChanges(given)
	}
}
