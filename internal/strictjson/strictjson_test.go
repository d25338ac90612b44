package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want string // part of the error; empty when it is fine
	}{
		"object":              {`{"a":1,"b":{"a":[1,{"a":2},{"a":3}]},"c":"a"}`, ""},
		"array":               {`[1,2]`, ""},
		"scalar":              {`"x"`, ""},
		"a name twice":        {`{"a":1,"a":2}`, "a: the name is there twice"},
		"text value and name": {`{"name":"a","name":"b"}`, "name: the name is there twice"},
		"a name twice inside": {`{"a":{"b":1,"b":2}}`, "a.b: the name is there twice"},
		"in an array":         {`{"a":[{"b":1,"b":2}]}`, "a.b: the name is there twice"},
		"same by escapes":     {`{"a":1,"\u0061":2}`, "twice"},
		"two values":          {`{} {}`, "something follows"},
		"cut off":             {`{"a":`, "not JSON"},
		"deep":                {strings.Repeat("[", 33) + strings.Repeat("]", 33), "more than 32 deep"},
		"just deep enough":    {strings.Repeat("[", 32) + strings.Repeat("]", 32), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.body), Options{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// What passes is JSON, and means the same to a reader that takes the first of two names and
// to one that takes the last.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a":[{"b":null}]}`, `[[[]]]`, `{"a":{"a":{"a":1}}}`, `{"":{"":1}}`, `1 2`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := Decode(body, Options{}); err == nil && len(strings.TrimSpace(string(body))) > 0 && !json.Valid(body) {
			t.Errorf("%q passes and is not JSON", body)
		}
	})
}

func TestDecodeFoldsNames(t *testing.T) {
	if _, err := Decode([]byte(`{"userName":"a","USERNAME":"b"}`), Options{FoldNames: true}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("names that differ only in case pass: %v", err)
	}
	if _, err := Decode([]byte(`{"a":{"b":1},"c":{"b":1}}`), Options{FoldNames: true}); err != nil {
		t.Error(err)
	}
}
