package registry

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// entry is the credentials for a host pattern and a path prefix.
type entry struct {
	host string // "ghcr.io", "*.example.com:5000"
	path string // "" or "team/project"
	auth authn.AuthConfig
}

func (e entry) name() string {
	if e.path == "" {
		return e.host
	}
	return e.host + "/" + e.path
}

// keychain resolves a repository to the first matching entry. It is sorted by
// specificity.
type keychain []entry

// Resolve implements authn.Keychain; it never returns an error.
func (k keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	host := strings.ToLower(target.RegistryStr())
	_, repository, _ := strings.Cut(target.String(), "/")
	if isDockerHub(host) {
		host = dockerHub
	}
	for _, e := range k {
		if matchHost(e.host, host) && matchPath(e.path, repository) {
			return e.authenticator(), nil
		}
	}
	return authn.Anonymous, nil
}

func (e entry) authenticator() authn.Authenticator {
	if e.auth == (authn.AuthConfig{}) {
		return authn.Anonymous
	}
	return authn.FromConfig(e.auth)
}

// sort orders by path length, then exact hosts before patterns, then name. It
// is stable for entries under several names of one host.
func (k keychain) sort() {
	slices.SortStableFunc(k, func(a, b entry) int {
		return cmp.Or(
			cmp.Compare(len(b.path), len(a.path)),
			cmp.Compare(strings.Count(a.host, "*"), strings.Count(b.host, "*")),
			cmp.Compare(a.name(), b.name()),
		)
	})
}

// matchHost reports whether the labels of a host match those of a pattern: *
// does not span a dot. The ports must be equal.
func matchHost(pattern, host string) bool {
	if pattern == host {
		return true
	}
	if !strings.Contains(pattern, "*") {
		return false
	}
	patternName, patternPort, _ := strings.Cut(pattern, ":")
	hostName, hostPort, _ := strings.Cut(host, ":")
	if patternPort != hostPort {
		return false
	}
	want, got := strings.Split(patternName, "."), strings.Split(hostName, ".")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], got[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// matchPath reports whether prefix is the repository or a parent of it.
func matchPath(prefix, repository string) bool {
	return prefix == "" || repository == prefix || strings.HasPrefix(repository, prefix+"/")
}
