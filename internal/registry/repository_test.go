package registry

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRepository(t *testing.T) {
	tests := map[string]Repository{
		"ghcr.io/demo/cube":                     {Host: "ghcr.io", Path: "demo/cube"},
		"127.0.0.1:15000/demo/cube":             {Host: "127.0.0.1:15000", Path: "demo/cube"},
		"localhost/cube":                        {Host: "localhost", Path: "cube"},
		"[::1]:5000/cube":                       {Host: "[::1]:5000", Path: "cube"},
		"cubejs/cube":                           {Host: "docker.io", Path: "cubejs/cube"},
		"cube":                                  {Host: "docker.io", Path: "library/cube"},
		"docker.io/cube":                        {Host: "docker.io", Path: "library/cube"},
		"index.docker.io/cubejs/cube":           {Host: "docker.io", Path: "cubejs/cube"},
		"registry.example.com:8443/a/b/c_d-e.f": {Host: "registry.example.com:8443", Path: "a/b/c_d-e.f"},
		"a.b/c__d/e---f":                        {Host: "a.b", Path: "c__d/e---f"},
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			got, err := ParseRepository(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			again, err := ParseRepository(got.String())
			if err != nil || again != got {
				t.Errorf("ParseRepository(%q) = %v, %v, want %v", got.String(), again, err, got)
			}
		})
	}
}

func TestParseRepositoryRejects(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"empty":           {"", "repository is empty"},
		"scheme":          {"https://ghcr.io/demo/cube", "must not have a scheme"},
		"tag":             {"ghcr.io/demo/cube:1.0", "must not have a tag"},
		"digest":          {"ghcr.io/demo/cube@sha256:abc", "must not have a digest"},
		"user":            {"user:hunter2@ghcr.io/demo/cube", "user information"},
		"upper case":      {"ghcr.io/Demo/cube", "want lower-case letters"},
		"double slash":    {"ghcr.io/demo//cube", "want lower-case letters"},
		"dots":            {"ghcr.io/../cube", "want lower-case letters"},
		"trailing slash":  {"ghcr.io/demo/", "want lower-case letters"},
		"blank":           {"ghcr.io/de mo", "want lower-case letters"},
		"host only":       {"ghcr.io/", "want lower-case letters"},
		"host":            {"gh_cr.io/demo", "want a host name"},
		"port zero":       {"ghcr.io:0/demo", "from 1 to 65535"},
		"port too large":  {"ghcr.io:70000/demo", "from 1 to 65535"},
		"IPv6":            {"[:::]:5000/demo", "want a host name"},
		"path too long":   {"ghcr.io/" + strings.Repeat("a", 256), "longer than 255"},
		"name too long":   {strings.Repeat("a", 600), "longer than 511"},
		"control":         {"ghcr.io/de\nmo", "want lower-case letters"},
		"query in a host": {"ghcr.io?x=1/demo", "want a host name"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRepository(tt.in)
			if !errors.Is(err, ErrInvalidName) {
				t.Fatalf("error %v, want ErrInvalidName", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not contain %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q contains a password", err)
			}
		})
	}
}

func FuzzParseRepository(f *testing.F) {
	for _, seed := range []string{"", "cube", "ghcr.io/a/b", "[::1]:5/a", "a:b@c/d", "localhost:5000/x", "a.b:c/d:e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r, err := ParseRepository(in)
		if err != nil {
			if !errors.Is(err, ErrInvalidName) {
				t.Fatalf("error %v, want ErrInvalidName", err)
			}
			return
		}
		again, err := ParseRepository(r.String())
		if err != nil || again != r {
			t.Fatalf("%q: parsed again %v, %v, want %v", in, again, err, r)
		}
		remote, err := r.remoteName(false)
		if err != nil {
			t.Fatalf("%q: accepted here, rejected by the library: %v", in, err)
		}
		if remote.RepositoryStr() != r.Path {
			t.Fatalf("%q: path %q here, %q in the library", in, r.Path, remote.RepositoryStr())
		}
	})
}
