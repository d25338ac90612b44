// Package route maps hosts and paths of requests to environments. It is pure: NewTable builds a
// table from objects, and the table resolves requests.
//
//	https://<deployment>.<data domain>/cubejs-api/v1/load                    production
//	https://<custom domain>/dev-mode/feature%2Fa/cubejs-api/v1/load          the branch feature/a
//	postgres://<deployment>.sql.<data domain>                                production
package route

import (
	"errors"
	"iter"
	"maps"
	"net"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// Reasons why a request has no environment. The texts are shown to callers, and do not disclose
// whether another tenant has the host or branch.
var (
	ErrHost        = errors.New("no deployment is served on this host")
	ErrPath        = errors.New("unknown path: it must begin with the base path of the data API, or with /dev-mode/<branch> and the base path")
	ErrBranch      = errors.New("no environment serves this branch")
	ErrEnvironment = errors.New("the deployment has no production environment yet")
)

// Environment is the environment that serves a request.
type Environment struct {
	Account    string
	Namespace  string
	Name       string
	Deployment string
	Type       v1alpha1.EnvironmentType
}

// MaySleep reports whether the environment may be put to sleep while it is unused.
func (e Environment) MaySleep() bool { return e.Type != v1alpha1.EnvironmentProduction }

// Target is the destination of a request.
type Target struct {
	Environment
	// Path is the escaped path of the request to the server.
	Path string
	// Rest is the part of Path below the server's base path; empty at the base path itself, and
	// for a WebSocket at the root.
	Rest string
}

// Table is the routing table of all deployments. It is immutable.
type Table struct {
	http, sql   map[string]*deployment
	deployments map[types.NamespacedName]*deployment
	// environments are those of the deployments.
	environments map[types.NamespacedName]struct{}
}

type deployment struct {
	basePath   string
	production *Environment
	branches   map[string]Environment
}

// Has reports whether a deployment is served.
func (t *Table) Has(namespace, name string) bool {
	return t.deployments[types.NamespacedName{Namespace: namespace, Name: name}] != nil
}

// HasEnvironment reports whether an environment of a deployment that is served exists.
func (t *Table) HasEnvironment(environment types.NamespacedName) bool {
	_, exists := t.environments[environment]
	return exists
}

// Environments returns the environments for which HasEnvironment is true.
func (t *Table) Environments() iter.Seq[types.NamespacedName] { return maps.Keys(t.environments) }

// HTTP returns the target of a request to host, with or without a port, for an escaped path.
// webSocket is set if the request opens a WebSocket: by default, clients open it at the root of
// the host or of a branch, so the root is served too.
func (t *Table) HTTP(host, escapedPath string, webSocket bool) (Target, error) {
	d := t.http[HostName(host)]
	if d == nil {
		return Target{}, ErrHost
	}
	if after, ok := strings.CutPrefix(escapedPath, engine.PathDevMode); ok {
		segment, rest, _ := strings.Cut(after, "/")
		name, err := url.PathUnescape(segment)
		if environment, known := d.branches[name]; known && err == nil {
			return d.target(environment, "/"+rest, webSocket)
		}
		// The base path of a deployment may begin with /dev-mode/ too.
		if _, ok := cutPath(escapedPath, d.basePath); !ok {
			return Target{}, ErrBranch
		}
	}
	if d.production == nil {
		return Target{}, ErrEnvironment
	}
	return d.target(*d.production, escapedPath, webSocket)
}

// target returns the target in an environment, for the path after the branch.
func (d *deployment) target(e Environment, path string, webSocket bool) (Target, error) {
	rest, ok := cutPath(path, d.basePath)
	switch {
	case ok && !hasParentSegment(rest):
		return Target{Environment: e, Path: engine.BasePath + rest, Rest: rest}, nil
	case webSocket && path == "/":
		return Target{Environment: e, Path: "/"}, nil
	}
	return Target{}, ErrPath
}

// cutPath removes a prefix of whole segments from a path.
func cutPath(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// hasParentSegment reports whether a path has a segment that the server may interpret as "..",
// which would lead out of the base path. The server's health endpoints are outside of it, and not
// public.
func hasParentSegment(path string) bool {
	if !strings.Contains(path, ".") && !strings.Contains(path, "%2") {
		return false
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return true
	}
	for segment := range strings.FieldsFuncSeq(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == ".." {
			return true
		}
	}
	return false
}

// SQL returns the environment of a host of the SQL interface: always production, because the
// protocol has no path.
func (t *Table) SQL(host string) (Environment, error) {
	d := t.sql[HostName(host)]
	switch {
	case d == nil:
		return Environment{}, ErrHost
	case d.production == nil:
		return Environment{}, ErrEnvironment
	}
	return *d.production, nil
}

// HostName returns a host in the form of the table: in lower case, without port and trailing dot.
func HostName(host string) string {
	if strings.LastIndexByte(host, ':') >= 0 {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
