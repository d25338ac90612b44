package identity

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// numbers is a directory in which every number belongs to the same resources.
type numbers struct {
	Directory
	ids []string
}

func (n numbers) Numbered(*schema.ResourceType, int64) []string { return n.ids }

// TestNumbers: a number that two resources share names neither.
func TestNumbers(t *testing.T) {
	for name, test := range map[string]struct {
		ids    []string
		want   string
		status int
		text   string
	}{
		"one":  {[]string{"ann"}, "ann", 0, ""},
		"none": {nil, "", http.StatusNotFound, "user 7 does not exist"},
		"two":  {[]string{"ann", "bob"}, "", http.StatusConflict, "ann and bob have the same number"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := people{Directory: numbers{ids: test.ids}, kind: schema.User}.id(7)
			var p *rest.Problem
			if errors.As(err, &p) != (test.status != 0) || p != nil && (p.GetStatus() != test.status || !strings.Contains(p.Message, test.text)) {
				t.Errorf("error %v, want %d %q", err, test.status, test.text)
			}
			if got != test.want {
				t.Errorf("id %q, want %q", got, test.want)
			}
		})
	}
}

func TestErrorsAreInTermsOfREST(t *testing.T) {
	for scim, want := range map[string]string{
		`userName: "x" belongs to another User`:   `username: "x" belongs to another User`,
		`name.givenName: must not`:                `firstName: must not`,
		`emails[0].value: is long`:                `email: is long`,
		`photos[0].value: "x" is not a URI`:       `picture: "x" is not a URI`,
		`active: "argocd" owns this attribute`:    `isDeactivated: "argocd" owns this attribute`,
		`nameless: x`:                             `nameless: x`,
		`the resource was changed concurrently`:   `the resource was changed concurrently`,
		`settings.theme: "argocd" owns this`:      `settings.theme: "argocd" owns this`,
		`title: "argocd" owns this: see userName`: `title: "argocd" owns this: see userName`,
	} {
		err := people{kind: schema.User}.problem(scimerror.New(http.StatusConflict, "%s", scim), 1)
		var p *rest.Problem
		if !errors.As(err, &p) || p.Message != want || p.GetStatus() != http.StatusConflict {
			t.Errorf("%s\nbecomes %v, want %s", scim, err, want)
		}
	}
	failure := errors.New("no answer")
	if err := (people{kind: schema.User}).problem(failure, 1); !errors.Is(err, failure) {
		t.Errorf("%v, want the error itself", err)
	}
}

func TestReplacePhoto(t *testing.T) {
	element := func(url string, primary any) map[string]any {
		e := map[string]any{"value": url}
		if primary != nil {
			e["primary"] = primary
		}
		return e
	}
	x := map[string]any{"value": "x", "type": "photo", "primary": true}
	for name, test := range map[string]struct {
		photos []any
		url    string
		want   []any
	}{
		"none":                    {nil, "x", []any{x}},
		"removed":                 {[]any{element("a", true)}, "", nil},
		"another one is kept":     {[]any{element("a", nil), element("b", true)}, "x", []any{x, element("a", nil)}},
		"the first one is shown":  {[]any{element("a", nil), element("b", nil)}, "", []any{element("b", nil)}},
		"one that is there":       {[]any{element("a", true), element("x", nil)}, "x", []any{x}},
		"removes none of nothing": {nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, replacePhoto(schema.Document{"photos": test.photos}, test.url)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
