package clients_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// keyNames are the keys for conversations: one for each profile, and auto without a profile.
var keyNames = []string{"rfc", "okta", "entra", "auto"}

// replay replays a conversation with each of its keys.
func replay(t *testing.T, name string) {
	c, err := readConversation("testdata/" + name + ".http")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range c.keys {
		t.Run(key, func(t *testing.T) {
			r := &replayed{caller: acme.WithToken(acme.Token(key)), values: map[string]any{
				"run": scimtest.RunID(), "token": acme.Token(key), "base": acme.BaseURL(),
			}}
			t.Cleanup(func() { r.tidy(t) })
			held := 0
			for _, s := range c.sections {
				if len(s.keys) > 0 && !slices.Contains(s.keys, key) {
					continue
				}
				held++
				if !t.Run(s.title, func(t *testing.T) { r.section(t, c.file, s) }) {
					t.Fatalf("%s:%d: %q failed, and later sections depend on it", c.file, s.line, s.title)
				}
			}
			if held == 0 {
				t.Fatalf("%s: no section has the key", c.file)
			}
		})
	}
}

// replayed is a conversation in progress.
type replayed struct {
	caller scimtest.Caller
	// values are the captured values by placeholder.
	values map[string]any
	// made are the locations of created resources.
	made []string
}

func (r *replayed) section(t *testing.T, file string, s *section) {
	for _, e := range s.exchanges {
		at := fmt.Sprintf("%s:%d", file, e.line)
		target, body, header, err := r.request(e)
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		began := time.Now()
		got := r.caller.Call(t, e.method, target, body, header...)
		took := time.Since(began)
		got.Request = at + ": " + got.Request
		if got.Status == 201 {
			r.made = append(r.made, strings.TrimPrefix(got.Header.Get("Location"), r.caller.BaseURL()))
		}
		if faults := r.check(e, got, took); len(faults) > 0 {
			t.Fatalf("%s:\n\t%s\nresponse %d: %s", got.Request, strings.Join(faults, "\n\t"), got.Status, scimtest.Truncate(got.Raw))
		}
	}
}

// tidy deletes the remaining resources.
func (r *replayed) tidy(t *testing.T) {
	for _, location := range slices.Backward(r.made) {
		r.caller.Delete(t, location)
	}
}

// request returns a request with its placeholders replaced.
func (r *replayed) request(e *exchange) (target string, body any, header []string, err error) {
	if target, err = r.fill(e.target); err != nil {
		return "", nil, nil, err
	}
	for _, text := range e.header {
		if text, err = r.fill(text); err != nil {
			return "", nil, nil, err
		}
		header = append(header, text)
	}
	if e.body == "" {
		return scimtest.EncodeTarget(target), nil, header, nil
	}
	if copied := changedCopy.FindStringSubmatch(e.body); copied != nil {
		body, err = r.changed(copied[1], copied[2])
	} else {
		body, err = r.fill(e.body)
	}
	return scimtest.EncodeTarget(target), body, header, err
}

// changed returns a captured object with other members.
func (r *replayed) changed(name, members string) (any, error) {
	kept, ok := r.values[name].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("{%s} is not a captured object", name)
	}
	text, err := r.fill(members)
	if err != nil {
		return nil, err
	}
	object := maps.Clone(kept)
	return object, json.Unmarshal([]byte(text), &object)
}

// fill replaces placeholders by their values.
func (r *replayed) fill(text string) (string, error) {
	var err error
	filled := placeholder.ReplaceAllStringFunc(text, func(found string) string {
		value, ok := r.values[strings.Trim(found, "{}")]
		if !ok {
			err = fmt.Errorf("%s was not captured", found)
		}
		if s, isText := value.(string); isText {
			return s
		}
		data, _ := json.Marshal(value) //nolint:errchkjson // it was JSON
		return string(data)
	})
	return filled, err
}

// check returns the failed expectations on a response.
func (r *replayed) check(e *exchange, got *scimtest.Response, took time.Duration) []string {
	if got.Status != e.status {
		return []string{fmt.Sprintf("the status is not %d", e.status)}
	}
	var body any
	if len(got.Raw) > 0 {
		if err := json.Unmarshal(got.Raw, &body); err != nil {
			return []string{"the body is not JSON"}
		}
	}
	faults := e.rules(got, body)
	for _, x := range e.expectations {
		if err := r.expect(x, got, body, took); err != nil {
			faults = append(faults, fmt.Sprintf("line %d: %v", x.line, err))
		}
	}
	return faults
}

// rules returns the violated general rules: the media type is that of SCIM, only a 204 has no body, a 201 has a
// Location, and errors are SCIM errors with a detail.
func (e *exchange) rules(got *scimtest.Response, body any) []string {
	if e.status == 204 {
		if len(got.Raw) > 0 {
			return []string{"a 204 has a body"}
		}
		return nil
	}
	var faults []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	must(got.Header.Get("Content-Type") == "application/scim+json", "Content-Type is %q", got.Header.Get("Content-Type"))
	schemas, _ := lookup(body, "schemas.length")
	must(schemas != nil, "no schemas")
	if e.status == 201 {
		location, _ := lookup(body, "meta.location")
		must(location != nil && got.Header.Get("Location") == location, "Location is %q, and meta.location %v", got.Header.Get("Location"), location)
	}
	if e.status >= 400 {
		urn, _ := lookup(body, "schemas.0")
		must(urn == scimtest.ErrorURN, "no SCIM error")
		status, _ := lookup(body, "status")
		must(status == strconv.Itoa(e.status), "status in the body is %v", status)
		detail, _ := lookup(body, "detail")
		must(detail != nil && detail != "", "no detail")
	}
	return faults
}

func (r *replayed) expect(x expectation, got *scimtest.Response, body any, took time.Duration) error {
	value, found := lookup(body, x.path)
	switch x.verb {
	case "keep":
		if !found || value == nil || value == "" {
			return fmt.Errorf("no %s to capture", x.path)
		}
		r.values[x.wanted] = value
		return nil
	case "within":
		most, err := time.ParseDuration(x.wanted)
		if err == nil && took > most {
			err = fmt.Errorf("took %s, want at most %s", took, most)
		}
		return err
	case "header":
		value, found = got.Header.Get(x.path), true
	case "is":
		if kind := kindOf(value, found); kind != x.wanted {
			return fmt.Errorf("%s is %s, want %s", x.path, kind, x.wanted)
		}
		return nil
	}
	text, err := r.fill(x.wanted)
	if err != nil {
		return err
	}
	var wanted any
	if err := json.Unmarshal([]byte(text), &wanted); err != nil {
		return fmt.Errorf("%s is not JSON: %w", text, err)
	}
	if !holds(x.verb, value, found, wanted) {
		return fmt.Errorf("%s %s %s: got %v", x.path, x.verb, text, value)
	}
	return nil
}

// holds reports whether a value satisfies an expectation.
func holds(verb string, value any, found bool, wanted any) bool {
	switch verb {
	case "=", "header":
		return found && reflect.DeepEqual(value, wanted)
	case ">=":
		n, number := value.(float64)
		least, also := wanted.(float64)
		return number && also && n >= least
	}
	list, ok := value.([]any)
	members, _ := wanted.(map[string]any)
	has := slices.ContainsFunc(list, func(item any) bool {
		object, _ := item.(map[string]any)
		for name, value := range members {
			if !reflect.DeepEqual(object[name], value) {
				return false
			}
		}
		return len(members) > 0
	})
	return verb == "has" && has || verb == "lacks" && ok && !has
}

func kindOf(value any, found bool) string {
	switch value.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	if found {
		return "null"
	}
	return "absent"
}

// lookup returns the value of a path in a body, and whether it is present.
func lookup(body any, path string) (any, bool) {
	if path == "body" {
		return body, body != nil
	}
	return apiclient.Lookup(body, path)
}
