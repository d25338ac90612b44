package clients_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// Tests of the replayer: parsing, errors, and that each of its checks can fail.

func TestReplayParser(t *testing.T) {
	c, err := parseConversation("x.http", `# source
@keys okta auto
@header Accept: application/scim+json
@query flag

## First
POST /Users?a=b
Content-Type: application/json

{"userName": "{run}",

 "active": true}
=> 201
{id} = id
[urn:a:2.0:User].manager.value = "{id}"

# between
GET /Users
=> 200
## Second
@keys auto
PUT /Users/{id}

{read} with {"active": false}
=> 200
within 600ms
header ETag = "W/\"1\""
`)
	if err != nil {
		t.Fatal(err)
	}
	first, second := c.sections[0], c.sections[1]
	e := first.exchanges[0]
	if len(c.sections) != 2 || len(first.exchanges) != 2 || first.title != "First" || !slices.Equal(c.keys, []string{"okta", "auto"}) || !slices.Equal(second.keys, []string{"auto"}) {
		t.Errorf("%+v", c)
	}
	if e.line != 7 || e.target != "/Users?a=b&flag" || e.status != 201 || e.body != "{\"userName\": \"{run}\",\n\n \"active\": true}" ||
		!slices.Equal(e.header, []string{"Accept", "application/scim+json", "Content-Type", "application/json"}) {
		t.Errorf("%+v", e)
	}
	if want := []expectation{{14, "id", "keep", "id"}, {15, "[urn:a:2.0:User].manager.value", "=", `"{id}"`}}; !slices.Equal(e.expectations, want) {
		t.Errorf("%+v", e.expectations)
	}
	if got := second.exchanges[0]; got.target != "/Users/{id}?flag" || got.expectations[1] != (expectation{27, "ETag", "header", `"W/\"1\""`}) {
		t.Errorf("%+v", got)
	}
}

func TestReplayParserErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no keys":                      "## A\nGET /Users\n=> 200\n",
		"unknown key":                  "@keys admin\n## A\nGET /Users\n=> 200\n",
		"section with other keys":      "@keys okta\n## A\n@keys entra\nGET /Users\n=> 200\n",
		"no section":                   "@keys okta\n",
		"section without exchange":     "@keys okta\n## A\n## B\nGET /Users\n=> 200\n",
		"last section empty":           "@keys okta\n## A\nGET /Users\n=> 200\n## B\n",
		"two sections of one title":    "@keys okta\n## A\nGET /Users\n=> 200\n## A\nGET /Users\n=> 200\n",
		"request outside sections":     "@keys okta\nGET /Users\n=> 200\n",
		"no status":                    "@keys okta\n## A\nGET /Users\n",
		"status and more":              "@keys okta\n## A\nGET /Users\n=> 200 OK\n",
		"another request, no status":   "@keys okta\n## A\nGET /Users\n\nGET /Groups\n=> 200\n",
		"body is not JSON":             "@keys okta\n## A\nPOST /Users\n\n{\"a\":}\n=> 200\n",
		"header without value":         "@keys okta\n## A\nGET /Users\nAccept\n=> 200\n",
		"target without slash":         "@keys okta\n## A\nGET Users\n=> 200\n",
		"unknown method":               "@keys okta\n## A\nFETCH /Users\n=> 200\n",
		"unknown directive":            "@key okta\n## A\nGET /Users\n=> 200\n",
		"unknown verb":                 "@keys okta\n## A\nGET /Users\n=> 200\nid equals \"a\"\n",
		"unknown kind":                 "@keys okta\n## A\nGET /Users\n=> 200\nid is text\n",
		"value is not JSON":            "@keys okta\n## A\nGET /Users\n=> 200\nid = a\n",
		"has an empty object":          "@keys okta\n## A\nGET /Users\n=> 200\nResources has {}\n",
		"said of a 204":                "@keys okta\n## A\nGET /Users\n=> 204\nid is absent\n",
		"expectation after empty line": "@keys okta\n## A\nGET /Users\n=> 200\n\nid is string\n",
	} {
		if c, err := parseConversation("x.http", text); err == nil {
			t.Errorf("%s is accepted: %+v", name, c)
		}
	}
}

// TestReplayExpectations checks that each expectation matches one response and not another.
func TestReplayExpectations(t *testing.T) {
	const yes = `{"schemas":["a"],"id":"1","n":5,"b":true,"none":null,"l":[{"value":"x","type":"work"},{"value":"y"}],"o":{"p":{"q":"r"}},"urn:a:2.0:b":{"c":["d"]}}`
	const no = `{"schemas":["a"],"id":1,"n":"4","b":"true","gone":null,"l":[{"value":"z"}],"o":{"p":[]},"x":1,"urn:a:2.0:b":{"c":["e"]}}`
	for _, line := range []string{
		`id = "1"`, `id = "{one}"`, `id is string`, `n = 5`, `n >= 5`, `n is number`, `b = true`, `b is boolean`, `none = null`, `x is absent`, `gone is absent`,
		`l.length = 2`, `l has {"value":"x","type":"work"}`, `l lacks {"value":"z"}`, `l.1 = {"value":"y"}`, `l.1.value is string`,
		`o.p.q = "r"`, `o.p is object`, `o = {"p":{"q":"r"}}`, `[urn:a:2.0:b].c.0 = "d"`, `l.1 is object`,
		`header ETag = "W/\"1\""`, `within 50ms`, `{kept} = l.0.type`,
	} {
		x, err := parseExpectation(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		e := &exchange{status: 200, expectations: []expectation{x}}
		for raw, want := range map[string]int{yes: 0, no: 1} {
			r := &replayed{values: map[string]any{"one": "1"}}
			etag := map[int]string{0: `W/"1"`, 1: `W/"2"`}[want]
			got := &scimtest.Response{Status: 200, Raw: []byte(raw), Header: http.Header{"Content-Type": {"application/scim+json"}, "Etag": {etag}}}
			if faults := r.check(e, got, time.Duration(want)*time.Second); len(faults) != want {
				t.Errorf("%s: %q of %s", line, faults, raw)
			}
		}
	}
	r := &replayed{values: map[string]any{}}
	if _, err := r.fill("{unknown}"); err == nil {
		t.Error("a value that was never kept is filled in")
	}
}

// TestReplayRules checks that violations of the general rules are detected.
func TestReplayRules(t *testing.T) {
	const refusal = `{"schemas":["` + scimtest.ErrorURN + `"],"status":"404","detail":"no"}`
	for name, c := range map[string]struct {
		status, got int
		raw         string
		header      string
		faults      int
	}{
		"another status":      {200, 201, `{"schemas":[]}`, "", 1},
		"not JSON":            {200, 200, `{"schemas":`, "", 1},
		"no schemas":          {200, 200, `{}`, "", 1},
		"other media type":    {200, 200, `{"schemas":[]}`, "application/json", 1},
		"charset":             {200, 200, `{"schemas":[]}`, "application/scim+json; charset=utf-8", 1},
		"204 with a body":     {204, 204, `{"schemas":[]}`, "", 1},
		"200 without a body":  {200, 200, ``, "", 1},
		"201 without a place": {201, 201, `{"schemas":[],"meta":{"location":"l"}}`, "", 1},
		"status as a number":  {404, 404, strings.Replace(refusal, `"404"`, `404`, 1), "", 1},
		"no detail":           {404, 404, strings.Replace(refusal, `"no"`, `""`, 1), "", 1},
		"no SCIM error":       {404, 404, strings.Replace(refusal, scimtest.ErrorURN, scimtest.UserURN, 1), "", 1},
		"fine":                {404, 404, refusal, "", 0},
	} {
		if c.header == "" {
			c.header = "application/scim+json"
		}
		got := &scimtest.Response{Status: c.got, Raw: []byte(c.raw), Header: http.Header{"Content-Type": {c.header}}}
		if faults := (&replayed{}).check(&exchange{status: c.status}, got, 0); len(faults) != c.faults {
			t.Errorf("%s: %q", name, faults)
		}
	}
}

// TestReplayFiles checks that all conversations are replayed, and that each path that is expected to be absent
// is expected to be present, or sent, elsewhere, so that a misspelled path is detected.
func TestReplayFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	tests := ""
	for _, file := range []string{"okta_test.go", "entra_test.go"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(data)
	}
	index := regexp.MustCompile(`(^|\.)\d+(\.|$)`)
	absent, present := map[string]string{}, map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		if !strings.Contains(tests, `replay(t, "`+name+`")`) {
			t.Errorf("%s is not replayed by any test", file)
		}
		c, err := readConversation(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.sections {
			for _, e := range s.exchanges {
				present["password"] = present["password"] || strings.Contains(e.body, `"password": "`)
				for _, x := range e.expectations {
					path := strings.TrimPrefix(index.ReplaceAllString(x.path, "."), "Resources.")
					if x.verb == "is" && x.wanted == "absent" {
						absent[path] = file
						continue
					}
					for ; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".]"))] {
						present[path] = true
					}
				}
			}
		}
	}
	for path, file := range absent {
		if !present[path] {
			t.Errorf("%s: %s is expected to be absent, but is not present in any conversation", file, path)
		}
	}
}
