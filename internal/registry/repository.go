package registry

import (
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

const (
	// dockerHub is the default host, as for the kubelet.
	dockerHub = "docker.io"

	maxHostLength = 255
	maxPathLength = 255

	pathRule = "lower-case letters and digits, separated inside a component by one of . _ __ or dashes, components separated by /"
)

// The grammar is that of github.com/distribution/reference.
var (
	hostPattern = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?$`)
	pathPattern = regexp.MustCompile(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)
	tagPattern  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

// Repository names a repository of a registry.
type Repository struct {
	// Host is the registry's host, with its port unless it is 443: "ghcr.io",
	// "127.0.0.1:15000". The default is "docker.io".
	Host string
	// Path is the name in the registry: "demo/cube"; on docker.io a single
	// component is prefixed with "library/".
	Path string
}

// String returns "host/path", which the kubelet parses as the same repository.
func (r Repository) String() string { return r.Host + "/" + r.Path }

// ParseRepository parses "[host[:port]/]path", without scheme, tag, digest or
// user information. The error wraps ErrInvalidName and names the allowed form.
func ParseRepository(s string) (Repository, error) {
	switch {
	case s == "":
		return Repository{}, invalidName("repository is empty: want [host[:port]/]path")
	case strings.Contains(s, "://"):
		return Repository{}, invalidName("repository must not have a scheme: want [host[:port]/]path")
	case strings.Contains(s, "@"): // not echoed: what is before it may be a password
		return Repository{}, invalidName("repository must not have a digest or user information: want [host[:port]/]path")
	case len(s) > maxHostLength+1+maxPathLength:
		return Repository{}, invalidName("repository is longer than %d characters", maxHostLength+1+maxPathLength)
	}
	r := Repository{Host: dockerHub, Path: s}
	if first, rest, ok := strings.Cut(s, "/"); ok && isHost(first) {
		r = Repository{Host: first, Path: rest}
	}
	r = r.normalise()
	if err := r.validate(); err != nil {
		return Repository{}, err
	}
	return r, nil
}

// isHost reports whether the first component is a host, as the kubelet decides.
func isHost(s string) bool {
	return s == "localhost" || strings.ContainsAny(s, ".:")
}

func (r Repository) validate() error {
	if len(r.Host) > maxHostLength || !hostPattern.MatchString(r.Host) || !validPort(r.Host) {
		return invalidName("registry host %q: want a host name or address, with a port from 1 to 65535 where needed", r.Host)
	}
	last := r.Path[strings.LastIndex(r.Path, "/")+1:]
	if strings.Contains(last, ":") {
		return invalidName("repository path %q must not have a tag", r.Path)
	}
	if len(r.Path) > maxPathLength {
		return invalidName("repository path is longer than %d characters", maxPathLength)
	}
	if !pathPattern.MatchString(r.Path) {
		return invalidName("repository path %q: want %s", r.Path, pathRule)
	}
	return nil
}

func validPort(host string) bool {
	colon := strings.LastIndex(host, ":")
	if colon < 0 || strings.HasSuffix(host, "]") {
		return validAddress(host)
	}
	port, err := strconv.Atoi(host[colon+1:])
	return err == nil && port >= 1 && port <= 65535 && validAddress(host[:colon])
}

// validAddress reports whether host is a name or a valid IPv6 address in
// brackets.
func validAddress(host string) bool {
	if !strings.HasPrefix(host, "[") {
		return true
	}
	return net.ParseIP(strings.Trim(host, "[]")) != nil
}

func (r Repository) normalise() Repository {
	if isDockerHub(r.Host) {
		r.Host = dockerHub
	}
	if r.Host == dockerHub && !strings.Contains(r.Path, "/") {
		r.Path = "library/" + r.Path
	}
	return r
}

// isDockerHub reports whether host is one of Docker Hub's names.
func isDockerHub(host string) bool {
	switch host {
	case dockerHub, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return true
	}
	return false
}

// remoteName returns the repository in go-containerregistry's type.
func (r Repository) remoteName(plainHTTP bool) (name.Repository, error) {
	var opts []name.Option
	if plainHTTP {
		opts = append(opts, name.Insecure)
	}
	repo, err := name.NewRepository(r.String(), opts...)
	if err != nil {
		return name.Repository{}, invalidName("repository %q: want [host[:port]/]path", r.String())
	}
	return repo, nil
}

func checkTag(tag string) error {
	if !tagPattern.MatchString(tag) {
		return invalidName("tag %q: want up to 128 letters, digits, . _ or -, not starting with . or -", tag)
	}
	return nil
}
