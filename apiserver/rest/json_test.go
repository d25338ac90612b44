package rest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
)

type numbers struct {
	Seconds *int64         `json:"seconds,omitempty" nullable:"true" minimum:"1" maximum:"86400"`
	Big     int64          `json:"big,omitempty"`
	Small   int32          `json:"small,omitempty"`
	Ratio   float64        `json:"ratio,omitempty"`
	At      *time.Time     `json:"at,omitempty" nullable:"true"`
	List    []int64        `json:"list,omitempty" nullable:"true"`
	Any     map[string]any `json:"any,omitempty" secret:"true"`
	Text    string         `json:"text,omitempty"`
	Nested  *struct {
		Count int `json:"count"`
	} `json:"nested,omitempty"`
}

func numbersAPI(t *testing.T) *API {
	t.Helper()
	type body struct{ Body numbers }
	a, err := New(Options{}, Family{Tag: "Numbers", Routes: []Route{
		Handle(http.MethodPut, "/numbers", "putNumbers", NoPermission, "Put", func(_ context.Context, in *body) (*body, error) { return in, nil }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// In JSON Schema 60, 60.0 and 6e1 are the same integer.
func TestIntegersAreNumbersWithoutFraction(t *testing.T) {
	a, p := numbersAPI(t), &auth.Principal{}
	for body, want := range map[string]string{
		`{"seconds":60.0}`:                   `"seconds":60`,
		`{"seconds":6e1}`:                    `"seconds":60`,
		`{"seconds":6.0E+1}`:                 `"seconds":60`,
		`{"seconds":600.00e-1}`:              `"seconds":60`,
		`{"big":9007199254740993.0}`:         `"big":9007199254740993`,
		`{"big":-0.0}`:                       `{`,
		`{"small":-0.5e1}`:                   `"small":-5`,
		`{"list":[1.0,2e0,3]}`:               `"list":[1,2,3]`,
		`{"nested":{"count":1e2}}`:           `"count":100`,
		`{"ratio":1.5,"text":"6e1 \" 60.0"}`: `"ratio":1.5,"text":"6e1 \" 60.0"`,
		`{"any":{"60.0":60.0,"x":"1.0"}}`:    `"any":{"60.0":60,"x":"1.0"}`,
		// Valid JSON, and 0 in double precision.
		`{"ratio":1e-9223372036854775808}`:   `{`,
		`{"ratio":1.5e-9223372036854775808}`: `{`,
		`{"ratio":1.5e-9223372036854775807}`: `{`,
	} {
		if w, got := send(a, p, http.MethodPut, "/numbers", body); w.Code != 200 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %s", body, w.Code, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"seconds":60.5}`:            "seconds: 60.5: expected integer",
		`{"seconds":1e300}`:           "seconds: 1e+300: expected number <= 86400",
		`{"big":1e300}`:               "big: the number is out of range; allowed: integers from -9223372036854775808 to 9223372036854775807",
		`{"small":2147483648}`:        "small: the number is out of range; allowed: integers from -2147483648 to 2147483647",
		`{"nested":{"count":1e30}}`:   "nested.count: the number is out of range",
		`{"list":[1,1e30]}`:           "list: the number is out of range",
		`{"list":[1,1e400]}`:          "list[1]: the number is out of range; allowed: numbers of double precision",
		`{"any":{"a":[{"b":1e400}]}}`: "any.a[0].b: the number is out of range",
		`{"a"`:                        "not JSON: unexpected end",
		`{"a";`:                       "not JSON: unexpected character near byte 4",
	} {
		if w, got := send(a, p, http.MethodPut, "/numbers", body); w.Code != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %s", body, w.Code, got, want)
		}
	}
}

// goWords are words of Go and its standard library that mean nothing to clients.
var goWords = regexp.MustCompile(`\bjson: |(?i)unmarshal|strconv|parsing time|cannot parse|Go (value|struct)|u?int(8|16|32|64)\b|float64|map\[|interface|runtime error|invalid character|looking for|URL escape|semicolon separator|unexpected EOF|0x[0-9a-f]{6}|base64|net/`)

// No value of any field or parameter makes an answer speak of Go.
func TestErrorsHaveNoWordsOfGo(t *testing.T) {
	a, p := numbersAPI(t), &auth.Principal{}
	odd := []string{
		"null", `""`, `"x"`, "1", "-1", "1.5", "1e300", "1e400", "-1e400", "99999999999999999999", "true", "[]", "[null]", "[[]]", "{}", `{"":null}`, `"\ud800"`, `"\u0000"`,
		`"2030-01-01"`, `"2030-01-01T1:00:00Z"`, `"2030-13-01T00:00:00Z"`, `"+10000-01-01T00:00:00Z"`, "nul", "01", "1.", "1e", ".5", "-", "+1", "NaN", "Infinity", "'x'", "{", "[", `"`, "\"\n\"", "\xff", "\"\xff\"", "{}}", "{},", `{"a":1,"a":2}`, "\x00",
		strings.Repeat("[", 40) + strings.Repeat("]", 40),
	}
	bodies := append([]string{}, odd...)
	for _, field := range []string{"seconds", "big", "small", "ratio", "at", "list", "any", "text", "nested", "unknown", ""} {
		for _, value := range odd {
			bodies = append(bodies, fmt.Sprintf(`{%q:%s}`, field, value), fmt.Sprintf(`{"nested":{"count":%s,%q:%s}}`, value, field, value))
		}
	}
	for _, body := range bodies {
		if w, got := send(a, p, http.MethodPut, "/numbers", body); w.Code >= 500 || w.Code >= 400 && goWords.MatchString(got) {
			t.Errorf("%s: %d %s", body, w.Code, got)
		}
	}
	a = newTestAPI(t)
	for _, query := range []string{"first=1e400", "first=1.5", "first=x", "first=99999999999999999999", "first=%zz", "first=1;after=2", "after=%00", "after=e30", "sort=x", "x=%", "first=-1", "first= 1"} {
		if w, got := send(a, p, http.MethodGet, "/things?"+strings.ReplaceAll(query, " ", "%20"), ""); w.Code >= 500 || w.Code >= 400 && goWords.MatchString(got) {
			t.Errorf("%s: %d %s", query, w.Code, got)
		}
	}
}

// A body that cannot be read to its end is a fault of the client.
func TestUnreadableBodyIsABadRequest(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/numbers", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	numbersAPI(t).ServeHTTP(w, r, &v1alpha1.Account{}, &auth.Principal{})
	if w.Code != 400 || goWords.MatchString(w.Body.String()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
