package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
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

// collector receives the elements of a streamed array.
type collector struct{ elements []any }

func (c *collector) Add(element any) error {
	if element == "refused" {
		return errors.New("the element is refused")
	}
	c.elements = append(c.elements, element)
	return nil
}

// oneByOne returns data one byte at a time, so that characters and escapes are split.
func oneByOne(body string) io.Reader { return iotest.OneByteReader(strings.NewReader(body)) }

func TestStream(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		want   string
		count  int
		others int64
	}{
		"elements":           {`{"x":"é🦊\ud83e\udd8a","members":[{"value":"é"},"b",[1]],"y":[1,2]}`, "", 3, 0},
		"within limits":      {`{"members":["` + strings.Repeat(`aaaaaaaa","`, 100) + `b"]}`, "", 101, 64},
		"another array":      {`{"others":["` + strings.Repeat(`aaaaaaaa","`, 100) + `b"]}`, "too large", 0, 64},
		"a large element":    {`{"members":["` + strings.Repeat(`a`, 100) + `"]}`, "too large", 0, 64},
		"a large string":     {`{"x":"` + strings.Repeat(`\"`, 100) + `"}`, "too large", 0, 64},
		"refused":            {`{"members":["refused"]}`, "the element is refused", 0, 0},
		"nested":             {`{"x":{"members":[1]}}`, "", 0, 0},
		"truncated":          {`{"members":[1`, "unexpected end", 1, 0},
		"invalid UTF-8":      {"{\"members\":[\"\xc3\"]}", "UTF-8", 0, 0},
		"half a character":   {"{\"members\":[\"\xc3", "UTF-8", 0, 0},
		"half of a pair":     {`{"members":["\ud83ex"]}`, "surrogate", 0, 0},
		"duplicate of array": {`{"members":[1],"Members":[1]}`, "duplicate", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := &collector{}
			value, err := DecodeFrom(oneByOne(c.body), Options{FoldNames: true, MaxUnstreamed: c.others, Stream: func(path []string) Elements {
				if len(path) == 1 && path[0] == "members" {
					return got
				}
				return nil
			}})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || len(got.elements) != c.count {
				t.Errorf("%v, %d elements, want %q and %d", err, len(got.elements), c.want, c.count)
			}
			if object, ok := value.(map[string]any); c.count > 0 && c.want == "" && (!ok || object["members"] != any(got)) {
				t.Errorf("got %v", value)
			}
		})
	}
	cause := errors.New("the connection is lost")
	if _, err := DecodeFrom(iotest.ErrReader(cause), Options{}); !errors.Is(err, cause) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

// Every accepted body is valid JSON.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a":[{"b":null}]}`, `[[[]]]`, `{"a":{"a":{"a":1}}}`, `{"":{"":1}}`, `1 2`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, whole := Decode(body, Options{})
		if _, parts := DecodeFrom(iotest.OneByteReader(bytes.NewReader(body)), Options{}); (whole == nil) != (parts == nil) {
			t.Errorf("%q: %v as a whole, %v in parts", body, whole, parts)
		}
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
