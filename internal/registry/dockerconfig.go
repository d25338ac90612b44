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

// maxDockerConfig bounds a docker config, bytes; a Secret holds no more.
const maxDockerConfig = 1 << 20

// ParseDockerConfig reads the `.dockerconfigjson` of a Secret of the type
// kubernetes.io/dockerconfigjson. Each entry of `auths` has `auth`
// (base64 of user:password, which wins) or `username` and `password`, or
// `identitytoken`, or `registrytoken`; an empty entry is anonymous.
//
// The keychain matches like the kubelet: host with port, `*` for a part of a
// host name, an optional path prefix, the longest first; docker.io and its
// other names are one. The error wraps ErrInvalidConfig and names the field
// that is wrong, never its content.
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

// parseEntry reads one entry of auths.
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

// checkAuth refuses half a pair: sent as it is, the registry would only say no.
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

// decodeAuth splits base64(user:password), padded or not. reason is empty or
// says what is wrong without quoting it.
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

// parseEntryKey reads "host[:port][/path]" in any of the forms that docker
// login has written: with a scheme, with /v1/ or /v2/ at the end.
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

// jsonReason says where JSON is wrong without quoting it, as the errors of
// encoding/json do.
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
