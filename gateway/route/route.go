// Package route says for which environment a request is. It is pure: objects in, a table out,
// and the table answers.
//
//	https://<deployment>.<data domain>/cubejs-api/v1/load                    production
//	https://<custom domain>/dev-mode/feature%2Fa/cubejs-api/v1/load          the branch feature/a
//	postgres://<deployment>.sql.<data domain>                                production
package route

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// Why there is no environment for a request. The texts are shown to callers: none says
// whether somebody else has what is missing.
var (
	ErrHost        = errors.New("no deployment answers on this host")
	ErrPath        = errors.New("nothing is served under this path: it must begin with the base path of the data API, or with /dev-mode/<branch> and the base path")
	ErrBranch      = errors.New("no environment serves this branch")
	ErrEnvironment = errors.New("the deployment has no production environment yet")
)

// Environment is one that requests can be for.
type Environment struct {
	Account    string
	Namespace  string
	Name       string
	Deployment string
	Type       v1alpha1.EnvironmentType
}

// MaySleep tells whether the environment is one that is put to sleep when nobody uses it.
func (e Environment) MaySleep() bool { return e.Type != v1alpha1.EnvironmentProduction }

// Target is where a request goes.
type Target struct {
	Environment
	// Path is the escaped path as the server gets it.
	Path string
	// Rest is what of it is below the server's base path; empty at the base path itself, and
	// for a WebSocket at the root.
	Rest string
}

// Table knows all deployments. It does not change once it is built.
type Table struct {
	http, sql   map[string]*deployment
	deployments map[types.NamespacedName]*deployment
}

type deployment struct {
	basePath   string
	production *Environment
	branches   map[string]Environment
}

// Has tells whether a deployment is served.
func (t *Table) Has(namespace, name string) bool {
	return t.deployments[types.NamespacedName{Namespace: namespace, Name: name}] != nil
}

// HTTP is the target of a request to host, with or without a port, for an escaped path.
// webSocket says that the request opens one: clients open it at the root (of the host or of a
// branch) unless they are told otherwise, so this is served too.
func (t *Table) HTTP(host, escapedPath string, webSocket bool) (Target, error) {
	d := t.http[HostName(host)]
	if d == nil {
		return Target{}, ErrHost
	}
	if after, ok := strings.CutPrefix(escapedPath, engine.PathDevMode); ok {
		segment, rest, _ := strings.Cut(after, "/")
		name, err := url.PathUnescape(segment)
		if environment, known := d.branches[name]; known && err == nil {
			return d.below(environment, "/"+rest, webSocket)
		}
		// A deployment may have a base path that begins like that.
		if _, ok := cutPath(escapedPath, d.basePath); !ok {
			return Target{}, ErrBranch
		}
	}
	if d.production == nil {
		return Target{}, ErrEnvironment
	}
	return d.below(*d.production, escapedPath, webSocket)
}

// below is the target in an environment, for the path after what names it.
func (d *deployment) below(e Environment, path string, webSocket bool) (Target, error) {
	rest, ok := cutPath(path, d.basePath)
	switch {
	case ok && !climbs(rest):
		return Target{Environment: e, Path: engine.BasePath + rest, Rest: rest}, nil
	case webSocket && path == "/":
		return Target{Environment: e, Path: "/"}, nil
	}
	return Target{}, ErrPath
}

// cutPath takes whole segments off a path.
func cutPath(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// climbs tells whether a path has a segment that some reader takes for one that leads up, out
// of the base path. The server's health is outside of it, and not for callers.
func climbs(path string) bool {
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

// SQL is the environment of a host of the SQL interface: the protocol has no path, so it is
// production.
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

// HostName is a host as the table knows it: in lower case, without a port and a final dot.
func HostName(host string) string {
	if strings.LastIndexByte(host, ':') >= 0 {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
