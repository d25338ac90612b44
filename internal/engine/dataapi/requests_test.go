package dataapi_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
)

func TestRequestsAreClassified(t *testing.T) {
	for _, tc := range []struct {
		method, path    string
		metadata, query bool
		scope           string
	}{
		{"GET", "/v1/meta", true, true, "meta"},
		{"POST", "/v1/meta", true, true, "meta"},
		{"DELETE", "/v1/meta", false, false, "meta"},
		{"GET", "/v1/entities", true, true, "meta"},
		{"GET", "/v1/data-sources", true, true, "meta"},
		{"POST", "/v1/data-sources", false, false, "meta"},
		{"GET", "/v1/meta/", false, true, "meta"},
		{"GET", "/v1/%6deta", false, true, "data"},
		{"GET", "/v1//meta", false, true, "data"},
		{"GET", "/V1/META", false, true, "data"},
		{"POST", "/v1/load", false, true, "data"},
		{"GET", "/v1/load", false, true, "data"},
		{"POST", "/v1/cubesql", false, true, "data"},
		{"POST", "/v1/sql", false, true, "sql"},
		{"POST", "/graphql", false, false, "graphql"},
		{"POST", "/v1/pre-aggregations/can-use", false, true, "meta"},
		{"POST", "/v1/pre-aggregations/jobs", false, false, "jobs"},
		{"DELETE", "/v1/running-query/1", false, false, "data"},
		{"POST", "/v1/unknown", false, false, "data"},
		{"POST", "", false, false, "data"},
	} {
		if got := dataapi.IsMetadata(tc.method, tc.path); got != tc.metadata {
			t.Errorf("%s %s: metadata %t", tc.method, tc.path, got)
		}
		if got := dataapi.IsQuery(tc.method, tc.path); got != tc.query {
			t.Errorf("%s %s: query %t", tc.method, tc.path, got)
		}
		if got := dataapi.Scope(tc.path); got != tc.scope {
			t.Errorf("%s: scope %q, want %q", tc.path, got, tc.scope)
		}
	}
}

// TestPermissionsOfRequests: only exact spellings of paths need less than everything.
func TestPermissionsOfRequests(t *testing.T) {
	for path, want := range map[string]struct{ sql, metadata bool }{
		"/v1/load":                  {false, false},
		"/v1/convert-query":         {false, false},
		"/v1/cubesql":               {true, false},
		"/v1/meta":                  {false, true},
		"/v1/running-query/a-1":     {false, false},
		"/v1/running-query/":        {true, true},
		"/v1/running-query/a/b":     {true, true},
		"/v1/running-query/%2e":     {true, true},
		"/v1/running-query/..":      {true, true},
		"/v1/running-query/a\nmeta": {true, true},
		"/v1/Load":                  {true, true},
	} {
		if got := dataapi.MayRunSQL(path); got != want.sql {
			t.Errorf("%q: SQL %t", path, got)
		}
		if got := dataapi.MayReadMetadata(path); got != want.metadata {
			t.Errorf("%q: metadata %t", path, got)
		}
	}
}

func TestEntities(t *testing.T) {
	const meta = `{"cubes":[
		{"name":"orders","title":"Orders","description":"All","type":"cube","sql":"SELECT secret","measures":[{"name":"orders.count","title":"Orders Count","shortTitle":"Count","type":"number","aggType":"count","sql":"x"}],"dimensions":[{"name":"orders.id","type":"number","primaryKey":true},{"name":"orders.at"}]},
		{"name":"sales","type":"view","segments":[{"name":"sales.big"}]},
		{"name":"old"}]}`
	const want = `{"entities":[` +
		`{"name":"orders","title":"Orders","description":"All","type":"cube",` +
		`"measures":[{"name":"orders.count","title":"Orders Count","shortTitle":"Count","type":"number","aggType":"count"}],` +
		`"dimensions":[{"name":"orders.id","type":"number","primaryKey":true},{"name":"orders.at"}],"segments":[]},` +
		`{"name":"sales","type":"view","measures":[],"dimensions":[],"segments":[{"name":"sales.big"}]},` +
		`{"name":"old","type":"cube","measures":[],"dimensions":[],"segments":[]}]}` + "\n"
	if got, err := dataapi.Entities(strings.NewReader(meta)); err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	for _, empty := range []string{`{"cubes":[]}`, `{"cubes":null}`, `{}`, `{"compilerId":{"a":[1]}}`} {
		if got, err := dataapi.Entities(strings.NewReader(empty)); err != nil || string(got) != "{\"entities\":[]}\n" {
			t.Errorf("%s: %s, %v", empty, got, err)
		}
	}
}

func TestMetadataThatCannotBeListed(t *testing.T) {
	broken := errors.New("connection reset")
	many := func(before, repeated string, size int) io.Reader {
		return strings.NewReader(before + strings.Repeat(repeated, size/len(repeated)))
	}
	for name, tc := range map[string]struct {
		meta io.Reader
		want error
	}{
		"HTML":                 {strings.NewReader("<html>"), dataapi.ErrMalformed},
		"a list":               {strings.NewReader("[]"), dataapi.ErrMalformed},
		"empty":                {strings.NewReader(""), dataapi.ErrMalformed},
		"cubes that are text":  {strings.NewReader(`{"cubes":"a"}`), dataapi.ErrMalformed},
		"a name that is none":  {strings.NewReader(`{"cubes":[{"name":1}]}`), dataapi.ErrMalformed},
		"truncated":            {strings.NewReader(`{"cubes":[{"name":"a"}`), dataapi.ErrMalformed},
		"a broken connection":  {io.MultiReader(strings.NewReader(`{"cubes":[`), iotest.ErrReader(broken)), broken},
		"a long document":      {many(`{"more":[],"cubes":[{"x":[0],"meta":0`, `,"meta":"aaaaaaaaaaaa"`, 9<<20), dataapi.ErrTooLarge},
		"a long listing":       {many(`{"cubes":[{"name":"a","dataSource":"b"}`, `,{"name":"a","dataSource":"b"}`, 7<<20), dataapi.ErrTooLarge},
		"a long value":         {many(`{"cubes":[{"name":"`, `a`, 3<<20), dataapi.ErrTooLarge},
		"a long skipped value": {many(`{"cubes":[{"meta":[0`, `,0`, 3<<20), dataapi.ErrTooLarge},
		"deep nesting":         {many(`{"cubes":[{"meta":`, `[`, 1<<19), dataapi.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := io.ReadAll(tc.meta)
			again := func() io.Reader {
				if err != nil {
					return io.MultiReader(bytes.NewReader(all), iotest.ErrReader(err))
				}
				return bytes.NewReader(all)
			}
			if _, err := dataapi.Entities(again()); !errors.Is(err, tc.want) {
				t.Errorf("entities: %v, want %v", err, tc.want)
			}
			if _, err := dataapi.DataSources(again(), nil); !errors.Is(err, tc.want) {
				t.Errorf("data sources: %v, want %v", err, tc.want)
			}
		})
	}
}

func TestDataSources(t *testing.T) {
	env := func(pairs ...string) (out []v1alpha1.EnvVar) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, v1alpha1.EnvVar{Name: pairs[i], Value: &pairs[i+1]})
		}
		return out
	}
	const named = `{"cubes":[{"name":"a","dataSource":"second","measures":[{}]},{"name":"b","dataSource":"default"},{"dataSource":"second","name":"c"}]}`
	for name, tc := range map[string]struct {
		meta string
		env  []v1alpha1.EnvVar
		want []dataapi.DataSource
		err  error
	}{
		"one":             {`{}`, env("CUBEJS_DB_TYPE", "postgres"), []dataapi.DataSource{{Name: "default", Type: "postgres"}}, nil},
		"several":         {`{}`, env("CUBEJS_DATASOURCES", "default, second", "CUBEJS_DB_TYPE", "postgres", "CUBEJS_DS_SECOND_DB_TYPE", "duckdb"), []dataapi.DataSource{{Name: "default", Type: "postgres"}, {Name: "second", Type: "duckdb"}}, nil},
		"in the model":    {named, env("CUBEJS_DB_TYPE", "postgres"), []dataapi.DataSource{{Name: "default", Type: "postgres", Entities: []string{"b"}}, {Name: "second", Entities: []string{"a", "c"}}}, nil},
		"unknown":         {`{"cubes":[{"name":"a"}]}`, nil, nil, dataapi.ErrNoDataSources},
		"type in secrets": {`{}`, []v1alpha1.EnvVar{{Name: "CUBEJS_DB_TYPE", ValueFrom: &v1alpha1.EnvVarSource{}}}, nil, dataapi.ErrNoDataSources},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dataapi.DataSources(strings.NewReader(tc.meta), tc.env)
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.err) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
