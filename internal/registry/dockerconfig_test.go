package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// resolve returns the credentials for a repository.
func resolve(t *testing.T, k authn.Keychain, repository string) authn.AuthConfig {
	t.Helper()
	repo, err := name.NewRepository(repository)
	if err != nil {
		t.Fatal(err)
	}
	auth, err := k.Resolve(repo)
	if err != nil {
		t.Fatal(err)
	}
	config, err := auth.Authorization()
	if err != nil {
		t.Fatal(err)
	}
	return *config
}

func TestParseDockerConfig(t *testing.T) {
	const config = `{
		"credsStore": "desktop",
		"auths": {
			"https://index.docker.io/v1/":    {"auth": "aHViOnB3"},
			"ghcr.io":                        {"username": "ghcr", "password": "pw", "email": "a@b.c"},
			"ghcr.io/team":                   {"username": "team", "password": "pw"},
			"registry.example.com:5000":      {"auth": "cG9ydDpwdzp3aXRoOmNvbG9ucw"},
			"*.dkr.ecr.eu-west-1.example.com": {"username": "AWS", "password": "pw"},
			"http://legacy.example.com/v2/":  {"username": "ignored", "password": "ignored", "auth": "bGVnYWN5OnB3"},
			"azure.example.com":              {"auth": "MDAwOg==", "identitytoken": "refresh"},
			"bearer.example.com":             {"registrytoken": "tok"},
			"public.example.com":             {}
		}
	}`
	k, err := ParseDockerConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	basic := func(user, password string) authn.AuthConfig {
		return authn.AuthConfig{Username: user, Password: password}
	}
	tests := map[string]authn.AuthConfig{
		"cubejs/cube":                               basic("hub", "pw"),
		"docker.io/cubejs/cube":                     basic("hub", "pw"),
		"registry-1.docker.io/cubejs/cube":          basic("hub", "pw"),
		"ghcr.io/demo/cube":                         basic("ghcr", "pw"),
		"ghcr.io/team/cube":                         basic("team", "pw"),
		"ghcr.io/team":                              basic("team", "pw"),
		"ghcr.io/teamwork/cube":                     basic("ghcr", "pw"),
		"registry.example.com:5000/x":               basic("port", "pw:with:colons"),
		"registry.example.com/x":                    {},
		"registry.example.com:5001/x":               {},
		"1234.dkr.ecr.eu-west-1.example.com/x":      basic("AWS", "pw"),
		"a.b.dkr.ecr.eu-west-1.example.com/x":       {},
		"1234.dkr.ecr.eu-west-1.example.com:5000/x": {},
		"legacy.example.com/x":                      basic("legacy", "pw"),
		"azure.example.com/x":                       {Username: "000", IdentityToken: "refresh"},
		"bearer.example.com/x":                      {RegistryToken: "tok"},
		"public.example.com/x":                      {},
		"other.example.com/x":                       {},
	}
	for repository, want := range tests {
		t.Run(repository, func(t *testing.T) {
			if diff := cmp.Diff(want, resolve(t, k, repository)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestParseDockerConfigOrder parses the same config repeatedly: the precedence
// of two names of one host must be deterministic.
func TestParseDockerConfigOrder(t *testing.T) {
	config := `{"auths":{"docker.io":{"username":"a","password":"pw"},"https://index.docker.io/v1/":{"username":"b","password":"pw"}}}`
	for range 50 {
		k, err := ParseDockerConfig([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		if got := resolve(t, k, "cubejs/cube").Username; got != "a" {
			t.Fatalf("user %q, want a", got)
		}
	}
}

func TestParseDockerConfigRejects(t *testing.T) {
	const secret = "aHVudGVyMi1kby1ub3QtcHJpbnQ" // base64 without a colon in it
	tests := map[string]struct{ in, want string }{
		"not JSON":         {`{"auths":` + secret, ".dockerconfigjson: not JSON (byte 10)"},
		"empty":            {``, ".dockerconfigjson: not JSON (byte 0)"},
		"array":            {`["` + secret + `"]`, ".dockerconfigjson: auths has the wrong JSON type"},
		"no auths":         {`{"ghcr.io":{"auth":"` + secret + `"}}`, ".dockerconfigjson: auths is missing"},
		"auths is a list":  {`{"auths":["` + secret + `"]}`, ".dockerconfigjson: auths has the wrong JSON type"},
		"entry is text":    {`{"auths":{"ghcr.io":"` + secret + `"}}`, `auths["ghcr.io"]: has the wrong JSON type`},
		"auth is a number": {`{"auths":{"ghcr.io":{"auth":1}}}`, `auths["ghcr.io"]: auth has the wrong JSON type`},
		"not base64":       {`{"auths":{"ghcr.io":{"auth":"` + secret + `!"}}}`, `auths["ghcr.io"].auth: is not base64`},
		"no colon":         {`{"auths":{"ghcr.io":{"auth":"` + secret + `"}}}`, `auths["ghcr.io"].auth: is not base64 of user:password`},
		"no password":      {`{"auths":{"ghcr.io":{"username":"` + secret + `"}}}`, `auths["ghcr.io"].password: is missing`},
		"no user":          {`{"auths":{"ghcr.io":{"password":"` + secret + `"}}}`, `auths["ghcr.io"].username: is missing`},
		"user information": {`{"auths":{"https://u:` + secret + `@ghcr.io":{}}}`, "auths: a key has user information, want host[:port]"},
		"empty host":       {`{"auths":{"":{}}}`, "auths: a key is not host[:port]"},
		"too large":        {strings.Repeat(" ", maxDockerConfig+1), ".dockerconfigjson: larger than 1048576 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseDockerConfig([]byte(tt.in))
			if !errors.Is(err, ErrInvalidConfig) {
				t.Fatalf("error %v, want ErrInvalidConfig", err)
			}
			if want := "invalid registry configuration: " + tt.want; err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error %q contains the secret", err)
			}
		})
	}
}

func FuzzParseDockerConfig(f *testing.F) {
	const marker = "S3CR3TS3CR3T"
	for _, seed := range []string{
		`{}`, `{"auths":{}}`, `{"auths":{"a":{"auth":"%s"}}}`, `{"auths":{"a":{"username":"%s"}}}`,
		`{"auths":{"a":{"auth":["%s"]}}}`, `{"auths":{"a":"%s"}}`, `{"auths":{"u:%s@h":{}}}`, `{"auths":{"*.a":{"identitytoken":"%s"}}}`,
	} {
		f.Add(fmt.Sprintf(strings.ReplaceAll(seed, "%s", "%[1]s"), marker))
	}
	repo, err := name.NewRepository("ghcr.io/team/cube")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in string) {
		k, err := ParseDockerConfig([]byte(in))
		if err == nil {
			if _, err := k.Resolve(repo); err != nil {
				t.Fatalf("resolving failed: %v", err)
			}
			return
		}
		if !errors.Is(err, ErrInvalidConfig) {
			t.Fatalf("error %v, want ErrInvalidConfig", err)
		}
		// Host names are fields and may be shown; values must not be.
		if strings.Count(in, marker) == 1 && strings.Contains(in, `":"`+marker) && strings.Contains(err.Error(), marker) {
			t.Fatalf("error %q shows a value", err)
		}
	})
}
