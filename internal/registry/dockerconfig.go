package registry

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// maxDockerConfig bounds a docker config, bytes: the limit of a Secret.
const maxDockerConfig = 1 << 20

// ParseDockerConfig parses the `.dockerconfigjson` of a Secret of the type
// kubernetes.io/dockerconfigjson. Each entry of `auths` has `auth` (base64 of
// user:password, which takes precedence) or `username` and `password`, or
// `identitytoken`, or `registrytoken`; an empty entry is anonymous.
//
// The keychain matches as the kubelet does: host with port, `*` for a part of a
// host name, an optional path prefix, the longest first; the aliases of
// docker.io are equal. The error wraps ErrInvalidConfig; it names the invalid
// field and omits its value.
//
// Source: Kubernetes documentation, "Pull an Image from a Private Registry".
func ParseDockerConfig(data []byte) (authn.Keychain, error) {
	if len(data) > maxDockerConfig {
		return nil, invalidConfig(".dockerconfigjson: larger than %d bytes", maxDockerConfig)
	}
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, invalidConfig("%s", jsonReason(".dockerconfigjson", "auths", err))
	}
	if config.Auths == nil {
		return nil, invalidConfig(".dockerconfigjson: auths is missing")
	}
	var k keychain
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		e, err := parseEntry(key, config.Auths[key])
		if err != nil {
			return nil, err
		}
		k = append(k, e)
	}
	k.sort()
	return k, nil
}

// parseEntry parses an entry of auths.
func parseEntry(key string, raw json.RawMessage) (entry, error) {
	e, err := parseEntryKey(key)
	if err != nil {
		return entry{}, err
	}
	field := fmt.Sprintf("auths[%q]", e.name())
	var auth struct {
		Auth          *string `json:"auth"`
		Username      string  `json:"username"`
		Password      string  `json:"password"`
		IdentityToken string  `json:"identitytoken"`
		RegistryToken string  `json:"registrytoken"`
	}
	if err := json.Unmarshal(raw, &auth); err != nil {
		return entry{}, invalidConfig("%s", jsonReason(field, "", err))
	}
	e.auth = authn.AuthConfig{
		Username:      auth.Username,
		Password:      auth.Password,
		IdentityToken: auth.IdentityToken,
		RegistryToken: auth.RegistryToken,
	}
	if auth.Auth != nil && *auth.Auth != "" {
		user, password, reason := decodeAuth(*auth.Auth)
		if reason != "" {
			return entry{}, invalidConfig("%s.auth: %s", field, reason)
		}
		e.auth.Username, e.auth.Password = user, password
	}
	return e, checkAuth(field, e.auth)
}

// checkAuth rejects a user name without a password and vice versa.
func checkAuth(field string, a authn.AuthConfig) error {
	if a.IdentityToken != "" || a.RegistryToken != "" {
		return nil
	}
	if a.Username == "" && a.Password != "" {
		return invalidConfig("%s.username: is missing", field)
	}
	if a.Username != "" && a.Password == "" {
		return invalidConfig("%s.password: is missing", field)
	}
	return nil
}

// decodeAuth decodes base64(user:password), padded or not. reason is the
// description of an error, without the value, or empty.
func decodeAuth(s string) (user, password, reason string) {
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(s), "="))
	if err != nil {
		return "", "", "is not base64"
	}
	user, password, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return "", "", "is not base64 of user:password"
	}
	return user, strings.Trim(password, "\x00"), ""
}

// parseEntryKey parses "host[:port][/path]" in the forms that docker login
// writes: with a scheme, with /v1/ or /v2/ at the end.
func parseEntryKey(key string) (entry, error) {
	s := key
	if i := strings.Index(s, "://"); i >= 0 {
		s = s[i+len("://"):]
	}
	if strings.Contains(s, "@") {
		return entry{}, invalidConfig("auths: a key has user information, want host[:port]")
	}
	host, path, _ := strings.Cut(s, "/")
	path = strings.Trim(path, "/")
	if path == "v1" || path == "v2" {
		path = ""
	}
	if u, err := url.Parse("//" + host); host == "" || err != nil || u.Host != host {
		return entry{}, invalidConfig("auths: a key is not host[:port]")
	}
	host = strings.ToLower(host)
	if isDockerHub(host) {
		host = dockerHub
	}
	return entry{host: host, path: path}, nil
}

// jsonReason describes an error of encoding/json without quoting the input, as
// the error itself does.
func jsonReason(where, field string, err error) string {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("%s: not JSON (byte %d)", where, syntax.Offset)
	case errors.As(err, &wrongType):
		if wrongType.Field != "" {
			field = wrongType.Field
		}
		if field != "" {
			return fmt.Sprintf("%s: %s has the wrong JSON type", where, field)
		}
	}
	return where + ": has the wrong JSON type"
}
