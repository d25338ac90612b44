// Package dataapi describes the HTTP API of the data-plane server as its clients see it: paths,
// scopes, headers and the metadata document.
package dataapi

import (
	"net/http"
	"slices"
	"strings"
)

// HeaderToken is the header that wins over Authorization when a request has both. Source:
// packages/cubejs-api-gateway/src/gateway.ts, extractAuthorizationHeader.
const HeaderToken = "X-Cube-Authorization" //nolint:gosec // a name, no credential

// MaxRequestBytes is the largest body that the server can be told to take
// (CUBEJS_MAX_REQUEST_SIZE, packages/cubejs-backend-shared/src/env.ts).
const MaxRequestBytes = 64 << 20

// Scopes that the server asks for, see its initApp. The empty scope belongs to what only
// needs a valid token.
const (
	ScopeData    = "data"
	ScopeSQL     = "sql"
	ScopeMeta    = "meta"
	ScopeGraphQL = "graphql"
	ScopeJobs    = "jobs"
)

// PathEntities and PathDataSources are listings below the base path that the hosted service
// has and the open-source server lacks; see docs/decisions/0022-metadata-endpoints.md.
const (
	PathEntities    = "/v1/entities"
	PathDataSources = "/v1/data-sources"
	PathMeta        = "/v1/meta"
)

var (
	read        = []string{http.MethodGet, http.MethodHead}
	readOrPost  = []string{http.MethodGet, http.MethodHead, http.MethodPost}
	postOnly    = []string{http.MethodPost}
	scopedPaths = map[string]struct {
		scope   string
		methods []string
	}{
		"/v1/load":                     {ScopeData, readOrPost},
		"/v1/subscribe":                {ScopeData, readOrPost},
		"/v1/dry-run":                  {ScopeData, readOrPost},
		"/v1/cubesql":                  {ScopeData, postOnly},
		"/v1/sql":                      {ScopeSQL, readOrPost},
		"/v1/convert-query":            {ScopeSQL, postOnly},
		PathMeta:                       {ScopeMeta, readOrPost},
		PathEntities:                   {ScopeMeta, read},
		PathDataSources:                {ScopeMeta, read},
		"/v1/pre-aggregations/can-use": {ScopeMeta, postOnly},
		"/v1/pre-aggregations/jobs":    {ScopeJobs, postOnly},
		"/graphql":                     {ScopeGraphQL, readOrPost},
		"/v1/graphql-to-json":          {"", postOnly},
	}
)

// IsMetadata tells whether a metadata token may be used for a request. path is the escaped
// path below the base path. Only these spellings count: what the server might understand as
// one of them too is refused, not guessed at. The check of pre-aggregations has the scope
// meta as well, but takes a query and is none of the documented metadata endpoints.
func IsMetadata(method, path string) bool {
	switch path {
	case PathMeta, PathEntities, PathDataSources:
		return slices.Contains(scopedPaths[path].methods, method)
	}
	return false
}

// Scope is the word for what a request needs, as the server says it in `API scope is missing:
// <scope>`; data for what is not known here. path is as for IsMetadata.
func Scope(path string) string {
	if known := scopedPaths[strings.TrimSuffix(path, "/")]; known.scope != "" {
		return known.scope
	}
	return ScopeData
}

// IsQuery tells whether a request only asks: sending it a second time, because the first one
// was not answered, changes nothing. That holds for the server's queries although they are
// sent by POST. path is as for IsMetadata.
func IsQuery(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	known, ok := scopedPaths[path]
	return ok && known.scope != ScopeJobs && known.scope != ScopeGraphQL && slices.Contains(known.methods, method)
}
