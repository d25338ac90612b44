package oidctoken

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		config *v1alpha1.OidcTokenConfig
		want   string
	}{
		"valid":             {config("a", 1, variable("AWS_WEB_IDENTITY_TOKEN_FILE"), claim("a", "null"), claim("b", `{"c": [1, 2.50]}`)), ""},
		"reserved variable": {config("a", 1, variable("CUBEJS_API_SECRET")), "targetEnvVar: CUBEJS_API_SECRET is set by the platform"},
		"not JSON":          {config("a", 1, claim("team", "{")), "customClaims[team]: is not JSON"},
		"two values":        {config("a", 1, claim("team", "1 2")), "customClaims[team]: is more than one JSON value"},
		"too large":         {config("a", 1, claim("team", `"`+strings.Repeat("a", 4096)+`"`)), "customClaims: the claims have 4102 bytes; allowed: at most 4096"},
	} {
		got := ""
		if err := Check(c.config); err != nil {
			got = err.Error()
		}
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func namesOf(configs []*v1alpha1.OidcTokenConfig) string {
	var names []string
	for _, c := range configs {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

func TestInEffect(t *testing.T) {
	aws, gcp := variable("AWS"), variable("GCP")
	all := []*v1alpha1.OidcTokenConfig{
		config("second", 2, aws),
		config("first", 1, aws, only("sales", "hr")),
		config("third", 3, aws, gcp, only("sales")),
		config("suspended", 0, gcp, suspended),
		config("invalid", 0, variable("PORT")),
		config("renamed", 4, named("first")),
		config("none", 5),
	}
	for deployment, want := range map[string]string{"sales": "first third none", "hr": "first none", "other": "second renamed none"} {
		if got := namesOf(InEffect(all, deployment)); got != want {
			t.Errorf("%s: %q, want %q", deployment, got, want)
		}
	}
	for _, c := range []struct{ config, deployment, field, rival string }{
		{"second", "sales", "targetEnvVar", "first"}, {"renamed", "hr", "name", "first"}, {"second", "other", "", ""}, {"third", "sales", "", ""},
	} {
		for _, own := range all {
			if own.Name != c.config {
				continue
			}
			field, rival := Rival(all, own, c.deployment)
			got := ""
			if rival != nil {
				got = rival.Name
			}
			if field != c.field || got != c.rival {
				t.Errorf("%s in %s: %q %q, want %q %q", c.config, c.deployment, field, got, c.field, c.rival)
			}
		}
	}
	for i, c := range []struct {
		config *v1alpha1.OidcTokenConfig
		want   string
	}{
		{config("new", 9, aws, only("hr")), "targetEnvVar second"}, {config("new", 9, variable("OTHER")), ""},
		{config("new", 9, named("third"), only("x")), ""}, {config("new", 9, named("third"), only("sales")), "name third"}, {config("new", 9, gcp, only("hr")), ""},
	} {
		got := ""
		if field, other := Overlapping(all, c.config); other != nil {
			got = field + " " + other.Name
		}
		if got != c.want {
			t.Errorf("case %d: %q, want %q", i, got, c.want)
		}
	}
}

func TestLimit(t *testing.T) {
	var all []*v1alpha1.OidcTokenConfig
	for i := range MaxPerAccount + 1 {
		all = append(all, config(fmt.Sprintf("c%02d", i), int64(i)))
	}
	if ExceedsLimit(all, all[MaxPerAccount-1]) || !ExceedsLimit(all, all[MaxPerAccount]) {
		t.Error("the newest exceeds the limit, and no other")
	}
	if got := len(InEffect(all, "sales")); got != MaxPerAccount {
		t.Errorf("%d are in effect", got)
	}
}

func TestFiles(t *testing.T) {
	a, b, c := config("b", 1, variable("B")), config("a", 2, named("z")), config("c", 3)
	a.Status.Mounted, b.Status.Mounted = true, true
	want := []engine.TokenFile{{Config: "b", Name: "b", Variable: "B"}, {Config: "a", Name: "z"}}
	if diff := cmp.Diff(want, Files([]*v1alpha1.OidcTokenConfig{c, b, a}, "sales")); diff != "" {
		t.Error(diff)
	}
}
