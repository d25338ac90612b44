package filter

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// sameExpression compares expressions, ignoring positions.
var sameExpression = cmp.Options{cmpopts.IgnoreFields(Path{}, "At"), cmpopts.IgnoreFields(Comparison{}, "At")}

// wantError checks that an error is a scimerror.Error with a status, a scimType and a detail that contains
// a text.
func wantError(t *testing.T, err error, status int, scimType scimerror.Type, detail string) {
	t.Helper()
	var e *scimerror.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *scimerror.Error that says %q", err, detail)
	}
	if e.Status != status || e.Type != scimType || !strings.Contains(e.Detail, detail) {
		t.Errorf("got %v, want %d %s: ...%s...", e, status, scimType, detail)
	}
}

func mustParse(t testing.TB, s string) Expression {
	t.Helper()
	e, err := Dialect{Unquoted: true}.Parse(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return e
}

func name(s string) Path { return Path{Name: s} }

func equal(path Path, value any) *Comparison {
	return &Comparison{Path: path, Operator: Equal, Value: value}
}

// TestParseGrammar checks the grammar of RFC 7644 section 3.4.2.2, figure 1.
func TestParseGrammar(t *testing.T) {
	a, b, c := equal(name("a"), json.Number("1")), equal(name("b"), json.Number("2")), equal(name("c"), json.Number("3"))
	work := equal(name("type"), "work")
	tests := map[string]Expression{
		`userName eq "bjensen"`:                            equal(name("userName"), "bjensen"),
		`UserName EQ "bjensen"`:                            equal(name("UserName"), "bjensen"),
		`  userName   Eq   "bjensen"  `:                    equal(name("userName"), "bjensen"),
		`name.familyName co "O'Malley"`:                    &Comparison{Path: Path{Name: "name", Sub: "familyName"}, Operator: Contains, Value: "O'Malley"},
		`title PR`:                                         &Present{name("title")},
		`active eq TRUE`:                                   equal(name("active"), true),
		`active eq false`:                                  equal(name("active"), false),
		`title ne Null`:                                    &Comparison{Path: name("title"), Operator: NotEqual},
		`x gt -1.5e+3`:                                     &Comparison{Path: name("x"), Operator: GreaterThan, Value: json.Number("-1.5e+3")},
		`members.$ref eq "x"`:                              equal(Path{Name: "members", Sub: "$ref"}, "x"),
		`x-1_y eq "a\"b\\c\/\u00e9\n"`:                     equal(name("x-1_y"), "a\"b\\c/é\n"),
		`a eq 1 and b eq 2`:                                &And{a, b},
		`a eq 1 AND b eq 2 Or c eq 3`:                      &Or{&And{a, b}, c},
		`a eq 1 or b eq 2 and c eq 3`:                      &Or{a, &And{b, c}},
		`(a eq 1 or b eq 2) and c eq 3`:                    &And{&Or{a, b}, c},
		`a eq 1 and b eq 2 and c eq 3`:                     &And{&And{a, b}, c},
		`a eq 1 or (b eq 2 or c eq 3)`:                     &Or{a, &Or{b, c}},
		`not (a eq 1) and b eq 2`:                          &And{&Not{a}, b},
		`not(a eq 1 and b eq 2)`:                           &Not{&And{a, b}},
		`not (not (a eq 1))`:                               &Not{&Not{a}},
		`((a eq 1))`:                                       a,
		`emails[type eq "work"]`:                           &ValuePath{Path{Name: "emails", Filter: work}},
		`emails[type eq "work" and value co "@x"] or a pr`: &Or{&ValuePath{Path{Name: "emails", Filter: &And{work, &Comparison{Path: name("value"), Operator: Contains, Value: "@x"}}}}, &Present{name("a")}},
		`emails[not (type eq "work")]`:                     &ValuePath{Path{Name: "emails", Filter: &Not{work}}},
		`urn:ietf:params:scim:schemas:core:2.0:User:userName eq "x"`:                             equal(Path{URN: "urn:ietf:params:scim:schemas:core:2.0:User", Name: "userName"}, "x"),
		`urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value eq "26118915"`: equal(Path{URN: "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User", Name: "manager", Sub: "value"}, "26118915"),
		`urn:ietf:params:scim:schemas:extension:enterprise:2.0:User pr`:                          &Present{Path{URN: "urn:ietf:params:scim:schemas:extension:enterprise:2.0", Name: "User"}},
	}
	for s, want := range tests {
		got := mustParse(t, s)
		if diff := cmp.Diff(want, got, sameExpression); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s, diff)
		}
		roundTrip(t, got)
	}
}

// roundTrip checks that a printed expression is parsed to the same expression.
func roundTrip(t *testing.T, e Expression) {
	t.Helper()
	printed := e.String()
	if len(printed) > MaxLength {
		return // longer because of added quotes and parentheses
	}
	again, err := Parse(printed)
	if err != nil {
		t.Fatalf("printed %s: %v", printed, err)
	}
	if diff := cmp.Diff(e, again, sameExpression); diff != "" {
		t.Errorf("printed %s (-want +got):\n%s", printed, diff)
	}
	if again.String() != printed {
		t.Errorf("printed %s, then %s", printed, again)
	}
}

// TestParseClientForms checks forms that clients send in addition to the grammar, and their canonical form.
func TestParseClientForms(t *testing.T) {
	for s, want := range map[string]string{
		`emails[type eq "work"].value eq "x"`:             `emails[type eq "work"].value eq "x"`,
		`emails[type eq "work"].value pr`:                 `emails[type eq "work"].value pr`,
		`emails[ type eq "work" ] eq "x"`:                 `emails[type eq "work"] eq "x"`,
		`not a eq 1 and b eq 2`:                           `not (a eq 1) and b eq 2`,
		`not not a pr`:                                    `not (not (a pr))`,
		`externalId eq jyoung`:                            `externalId eq "jyoung"`,
		`userName eq user@example.com and a pr`:           `userName eq "user@example.com" and a pr`,
		`externalId eq 00u1-b_c.D+e`:                      `externalId eq "00u1-b_c.D+e"`,
		`employeeNumber eq 007`:                           `employeeNumber eq "007"`,
		`x eq truest`:                                     `x eq "truest"`,
		`meta.lastModified gt 2011-05-13T04:42:34Z`:       `meta.lastModified gt "2011-05-13T04:42:34Z"`,
		`roles[primary eq "True"]`:                        `roles[primary eq "True"]`,
		`(((a pr and (b pr))) or c pr)`:                   `a pr and b pr or c pr`,
		`id eq "X" and manager eq "Y"`:                    `id eq "X" and manager eq "Y"`,
		`a eq"x"and(b pr)`:                                `a eq "x" and b pr`,
		"a eq \"\\u0001\"":                                `a eq "\u0001"`,
		`members[value eq "2819c223" and type eq "User"]`: `members[value eq "2819c223" and type eq "User"]`,
	} {
		e := mustParse(t, s)
		if got := e.String(); got != want {
			t.Errorf("%s: got %s, want %s", s, got, want)
		}
		roundTrip(t, e)
	}
}

// TestParseErrors checks that errors contain the cause and the position (RFC 7644 section 3.12).
func TestParseErrors(t *testing.T) {
	for s, want := range map[string]string{
		``:                         `at position 1: found the end, expected a filter`,
		`   `:                      `at position 4: found the end, expected a filter`,
		`userName`:                 `at position 9: found the end, expected an operator`,
		`userName == "x"`:          `at position 10: found "=", expected an operator`,
		`userName is "x"`:          `at position 10: found "is", expected an operator`,
		`userName eq`:              `at position 12: found the end, expected a value`,
		`userName eq and`:          `at position 13: found "and", expected a value`,
		`userName eq a/b`:          `at position 13: found "a/b", expected a value`,
		`userName eq x y`:          `at position 15: found "y", expected and, or, or the end`,
		`userName eq "x`:           `at position 15: found the end, expected a " that ends`,
		"userName eq \"x\ty\"":     `at position 15: found "\t", expected a character`,
		`userName eq "\x"`:         `at position 13: the string has an invalid escape`,
		"userName eq \"\xff\"":     `at position 13: the string is not UTF-8`,
		"userName eq \xff":         `at position 13: found "?"`,
		`userName eq "x" "y z"`:    `at position 17: found the string "y z", expected and`,
		`(a pr`:                    `at position 6: found the end, expected and, or, or )`,
		`a pr)`:                    `at position 5: found ")", expected and, or, or the end`,
		`()`:                       `at position 2: found ")", expected an attribute, not, or (`,
		`and a pr`:                 `at position 1: found "and", expected an attribute`,
		`a pr and`:                 `at position 9: found the end, expected an attribute`,
		`not`:                      `at position 4: found the end, expected an attribute`,
		`9a pr`:                    `at position 1: found "9a", expected an attribute`,
		`a. pr`:                    `at position 1: found "a.", expected an attribute`,
		`a.b.c pr`:                 `at position 1: found "a.b.c", expected an attribute`,
		`:a pr`:                    `at position 1: found ":a", expected an attribute`,
		`emails[type eq "work"`:    `at position 22: found the end, expected and, or, or ]`,
		`emails[]`:                 `at position 8: found "]", expected an attribute`,
		`emails[a pr].`:            `at position 14: found the end, expected a sub-attribute`,
		`emails[a pr].value`:       `at position 19: found the end, expected an operator`,
		`emails[a pr] type eq "x"`: `at position 14: found "type", expected an operator`,
		`name.x[a pr]`:             `at position 7: found "[", expected no value filter`,
		`é eq "x"`:                 `at position 1: found "é", expected an attribute`,
	} {
		_, err := Dialect{Unquoted: true}.Parse(s)
		t.Run(s, func(t *testing.T) { wantError(t, err, 400, scimerror.InvalidFilter, want) })
	}
}

func TestParsePositions(t *testing.T) {
	e := mustParse(t, `a pr and  emails[type eq "x"].value eq "y"`).(*And).Right.(*Comparison)
	inner := e.Path.Filter.(*Comparison)
	if e.Path.At != 10 || e.At != 36 || inner.Path.At != 17 || inner.At != 22 {
		t.Errorf("got %d %d %d %d", e.Path.At, e.At, inner.Path.At, inner.At)
	}
}

// TestParseLimits checks that limits are enforced before recursion and allocation.
func TestParseLimits(t *testing.T) {
	tests := map[string]struct {
		ok, tooMuch, want string
	}{
		"parentheses": {nest("(", "a pr", ")", MaxDepth), nest("(", "a pr", ")", MaxDepth+1), "at position 33: nested more than 32 deep"},
		"not":         {nest("not (", "a pr", ")", MaxDepth), nest("not (", "a pr", ")", MaxDepth+1), "nested more than 32 deep"},
		"bare not":    {nest("not ", "a pr", "", MaxDepth), nest("not ", "a pr", "", MaxDepth+1), "nested more than 32 deep"},
		"brackets":    {nest("a[", "a pr", "]", MaxDepth), nest("a[", "a pr", "]", MaxDepth+1), "nested more than 32 deep"},
		"nodes":       {nest("", "a pr", " or a pr", MaxNodes/2-1), nest("", "a pr", " or a pr", MaxNodes/2), "more than 200"},
		"length":      {`a eq "` + strings.Repeat("x", MaxLength-7) + `"`, `a eq "` + strings.Repeat("x", MaxLength-6) + `"`, "at most 8192 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			roundTrip(t, mustParse(t, test.ok))
			_, err := Parse(test.tooMuch)
			wantError(t, err, 400, scimerror.InvalidFilter, test.want)
		})
	}
}

func nest(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

func TestHugeInputIsRejectedEarly(t *testing.T) {
	for _, c := range []string{"(", "not ", "a[", `"`, "a pr and ", "x", " "} {
		huge := strings.Repeat(c, 1<<20/len(c))
		short := huge[:MaxLength]
		for _, s := range []string{huge, short} {
			for _, read := range []func(string){
				func(s string) { _, _ = Parse(s) },
				func(s string) { _, _ = ParsePath(s) },
				func(s string) { _, _ = ParseAttribute(s) },
			} {
				if allocs := testing.AllocsPerRun(5, func() { read(s) }); allocs > 400 {
					t.Errorf("%q: %v allocations", c, allocs)
				}
			}
		}
	}
}

// TestUnquotedWords checks that a word without quotes is a string only in the dialect that accepts it.
func TestUnquotedWords(t *testing.T) {
	for _, s := range []string{`externalId eq jyoung`, `userName sw a@b.c and active eq true`, `emails[type eq work]`, `x ne truest`} {
		if _, err := Parse(s); err == nil || !strings.Contains(err.Error(), `expected a value: "text" in quotes`) {
			t.Errorf("%s: %v", s, err)
		}
		if _, err := (Dialect{Unquoted: true}).Parse(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for s, fails := range map[string]bool{`emails[type eq work].value`: true, `emails[type eq "work"].value`: false} {
		if _, err := ParsePath(s); (err != nil) != fails {
			t.Errorf("%s: %v", s, err)
		}
		if _, err := (Dialect{Unquoted: true}).ParsePath(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
