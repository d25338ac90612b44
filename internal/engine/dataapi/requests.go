// Package dataapi describes the HTTP API of the data-plane server as its clients see it: paths,
// scopes, headers and the metadata document.
package dataapi

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// HeaderToken is the header that takes precedence over Authorization. Source:
// packages/cubejs-api-gateway/src/gateway.ts, extractAuthorizationHeader.
const HeaderToken = "X-Cube-Authorization" //nolint:gosec // a name, not a credential

// MaxRequestBytes is the largest body size that can be configured for the server
// (CUBEJS_MAX_REQUEST_SIZE, packages/cubejs-backend-shared/src/env.ts).
const MaxRequestBytes = 64 << 20

// Scopes that the server requires, see its initApp. Paths with an empty scope only require a valid
// token.
const (
	ScopeData    = "data"
	ScopeSQL     = "sql"
	ScopeMeta    = "meta"
	ScopeGraphQL = "graphql"
	ScopeJobs    = "jobs"
)

// ClaimPermissions lists what a person may do with a data token, if it is not all: names of the permissions DeploymentRead,
// SchemaRead and SqlRunnerRead. The gateway checks it; the server ignores it.
const ClaimPermissions = "quoinPermissions"

// pathRunSQL is the endpoint that runs the SQL of a request.
const pathRunSQL = "/v1/cubesql"

// Metadata endpoints, below the base path. The open-source server lacks the listings PathEntities
// and PathDataSources of the hosted service; see docs/decisions/0022-metadata-endpoints.md.
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
		pathRunSQL:                     {ScopeData, postOnly},
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

// IsMetadata reports whether a metadata token authorizes a request. path is the escaped path below
// the base path. It must equal one of the paths: other spellings that the server might accept are
// not permitted. The check of pre-aggregations has the scope meta too, but takes a query and is not
// a documented metadata endpoint.
func IsMetadata(method, path string) bool {
	switch path {
	case PathMeta, PathEntities, PathDataSources:
		return slices.Contains(scopedPaths[path].methods, method)
	}
	return false
}

// Scope returns the scope that a path requires, as in the server's error `API scope is missing:
// <scope>`; data for unknown paths. path is as for IsMetadata.
func Scope(path string) string {
	if known := scopedPaths[strings.TrimSuffix(path, "/")]; known.scope != "" {
		return known.scope
	}
	return ScopeData
}

// runningQuery is the path that cancels the queries of a request, with the request's id.
var runningQuery = regexp.MustCompile(`^/v1/running-query/[A-Za-z0-9_-]{1,64}$`)

// MayRunSQL reports whether a request may run SQL: all except those to the other known paths, so that no other spelling of
// the path passes. path is as for IsMetadata.
func MayRunSQL(path string) bool {
	_, known := scopedPaths[path]
	return !known && !runningQuery.MatchString(path) || path == pathRunSQL
}

// MayReadMetadata reports whether a request may read metadata: all except those to the endpoints of queries. GraphQL
// describes its schema. path is as for IsMetadata.
func MayReadMetadata(path string) bool {
	switch path {
	case pathRunSQL, "/v1/load", "/v1/subscribe", "/v1/dry-run", "/v1/sql", "/v1/convert-query":
		return false
	}
	return !runningQuery.MatchString(path)
}

// IsQuery reports whether a request is idempotent, so that it can be retried if it was not
// answered. The server's queries are idempotent although they use POST. path is as for IsMetadata.
func IsQuery(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	known, ok := scopedPaths[path]
	return ok && known.scope != ScopeJobs && known.scope != ScopeGraphQL && slices.Contains(known.methods, method)
}
