package dataapi_test

import (
	"testing"

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
