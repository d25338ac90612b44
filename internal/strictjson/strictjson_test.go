package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want string // a part of the error; empty for none
	}{
		"object":              {`{"a":1,"b":{"a":[1,{"a":2},{"a":3}]},"c":"a"}`, ""},
		"array":               {`[1,2]`, ""},
		"scalar":              {`"x"`, ""},
		"duplicate name":      {`{"a":1,"a":2}`, "a: duplicate name"},
		"same value":          {`{"name":"a","name":"b"}`, "name: duplicate name"},
		"nested duplicate":    {`{"a":{"b":1,"b":2}}`, "a.b: duplicate name"},
		"in an array":         {`{"a":[{"b":1,"b":2}]}`, "a.b: duplicate name"},
		"duplicate by escape": {`{"a":1,"\u0061":2}`, "duplicate name"},
		"two values":          {`{} {}`, "data after"},
		"truncated":           {`{"a":`, "not JSON"},
		"pair":                {`"\ud83e\uDD8A \\ud800 é"`, ""},
		"high surrogate":      {`{"a":"x\ud800"}`, "surrogate"},
		"high before another": {`"\ud800\n"`, "surrogate"},
		"two high":            {`"\ud800\ud800\udc00"`, "surrogate"},
		"low surrogate":       {`"\udc00"`, "surrogate"},
		"in a name":           {`{"\udc00":1}`, "surrogate"},
		"truncated escape":    {`"\ud8`, "not JSON"},
		"deep":                {strings.Repeat("[", 33) + strings.Repeat("]", 33), "more than 32 levels deep"},
		"maximum depth":       {strings.Repeat("[", 32) + strings.Repeat("]", 32), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.body), Options{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Every accepted body is valid JSON.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a":[{"b":null}]}`, `[[[]]]`, `{"a":{"a":{"a":1}}}`, `{"":{"":1}}`, `1 2`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := Decode(body, Options{}); err == nil && len(strings.TrimSpace(string(body))) > 0 && !json.Valid(body) {
			t.Errorf("%q is accepted and not JSON", body)
		}
	})
}

func TestDecodeFoldsNames(t *testing.T) {
	if _, err := Decode([]byte(`{"userName":"a","USERNAME":"b"}`), Options{FoldNames: true}); err == nil || !strings.Contains(err.Error(), "duplicate name") {
		t.Errorf("names that differ only in case are accepted: %v", err)
	}
	if _, err := Decode([]byte(`{"a":{"b":1},"c":{"b":1}}`), Options{FoldNames: true}); err != nil {
		t.Error(err)
	}
}
