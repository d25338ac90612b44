package dataapi_test

import (
	"errors"
	"testing"

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

func TestEntities(t *testing.T) {
	const meta = `{"cubes":[
		{"name":"orders","title":"Orders","description":"All","type":"cube","sql":"SELECT secret","measures":[{"name":"orders.count","title":"Orders Count","shortTitle":"Count","type":"number","aggType":"count","sql":"x"}],"dimensions":[{"name":"orders.id","type":"number","primaryKey":true}]},
		{"name":"sales","type":"view","segments":[{"name":"sales.big"}]},
		{"name":"old"}]}`
	entities, err := dataapi.Entities([]byte(meta))
	if err != nil {
		t.Fatal(err)
	}
	none := []dataapi.Member{}
	want := []dataapi.Entity{
		{Name: "orders", Title: "Orders", Description: "All", Type: "cube", Segments: none,
			Measures:   []dataapi.Member{{Name: "orders.count", Title: "Orders Count", ShortTitle: "Count", Type: "number", AggType: "count"}},
			Dimensions: []dataapi.Member{{Name: "orders.id", Type: "number", PrimaryKey: true}}},
		{Name: "sales", Type: "view", Measures: none, Dimensions: none, Segments: []dataapi.Member{{Name: "sales.big"}}},
		{Name: "old", Type: "cube", Measures: none, Dimensions: none, Segments: none},
	}
	if diff := cmp.Diff(want, entities); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if empty, err := dataapi.Entities([]byte(`{"cubes":[]}`)); err != nil || empty == nil {
		t.Errorf("%v, %v", empty, err)
	}
	if _, err := dataapi.Entities([]byte(`<html>`)); err == nil {
		t.Error("no error for HTML")
	}
}

func TestDataSources(t *testing.T) {
	env := func(pairs ...string) (out []v1alpha1.EnvVar) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, v1alpha1.EnvVar{Name: pairs[i], Value: &pairs[i+1]})
		}
		return out
	}
	named := []dataapi.Entity{{Name: "a", DataSource: "second"}, {Name: "b", DataSource: "default"}, {Name: "c", DataSource: "second"}}
	for name, tc := range map[string]struct {
		entities []dataapi.Entity
		env      []v1alpha1.EnvVar
		want     []dataapi.DataSource
		err      error
	}{
		"one":             {nil, env("CUBEJS_DB_TYPE", "postgres"), []dataapi.DataSource{{Name: "default", Type: "postgres"}}, nil},
		"several":         {nil, env("CUBEJS_DATASOURCES", "default, second", "CUBEJS_DB_TYPE", "postgres", "CUBEJS_DS_SECOND_DB_TYPE", "duckdb"), []dataapi.DataSource{{Name: "default", Type: "postgres"}, {Name: "second", Type: "duckdb"}}, nil},
		"in the model":    {named, env("CUBEJS_DB_TYPE", "postgres"), []dataapi.DataSource{{Name: "default", Type: "postgres", Entities: []string{"b"}}, {Name: "second", Entities: []string{"a", "c"}}}, nil},
		"unknown":         {[]dataapi.Entity{{Name: "a"}}, nil, nil, dataapi.ErrNoDataSources},
		"type in secrets": {nil, []v1alpha1.EnvVar{{Name: "CUBEJS_DB_TYPE", ValueFrom: &v1alpha1.EnvVarSource{}}}, nil, dataapi.ErrNoDataSources},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dataapi.DataSources(tc.entities, tc.env)
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.err) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
