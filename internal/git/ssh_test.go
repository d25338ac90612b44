package git

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSSH(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "model.git")
	commit := r.commit("main", r.tree(r.folder("model", r.file("a.yml", "cubes: []\n"))))
	behind := commit
	for range 3 {
		commit = r.commit("main", r.tree(r.folder("model", r.file("a.yml", "cubes: "+commit+"\n"))), commit)
	}
	key, identity := newKey(t, "open sesame")
	server := serveSSH(t, root, key.PublicKey())
	url := server.url("/model.git")
	creds := credentials(t, url, KeyIdentity, identity, KeyPassword, "open sesame\n", KeyKnownHosts, server.knownHosts())

	refs, branch, err := New(Options{}).Refs(t.Context(), url, creds)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Ref{{"main", commit}}, refs); diff != "" || branch != "main" {
		t.Errorf("default %q, %s", branch, diff)
	}
	for name, c := range map[string]string{"tip": commit, "behind the tip": behind} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			_, err := New(Options{}).Fetch(t.Context(), FetchOptions{
				URL: url, Creds: creds, Commit: c, Ref: "main", Path: "model", Dir: dir,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := listing(t, dir); len(got) != 1 {
				t.Errorf("files %v, want a.yml", got)
			}
		})
	}
	newRepo(t, root, "empty.git")
	refs, branch, err = New(Options{}).Refs(t.Context(), server.url("/empty.git"), creds)
	if err != nil || len(refs) != 0 || branch != "" {
		t.Errorf("empty repository: %v, %q, %v", refs, branch, err)
	}
}

func TestSSHFailures(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "model.git")
	r.commit("main", r.tree(r.file("a.yml", "1")))
	key, identity := newKey(t, "")
	otherKey, otherIdentity := newKey(t, "")
	server := serveSSH(t, root, key.PublicKey())
	url := server.url("/model.git")
	display := "repository ssh://" + server.address + "/model.git: "
	good := func(pairs ...string) Credentials {
		return credentials(t, url, append([]string{KeyIdentity, identity, KeyKnownHosts, server.knownHosts()}, pairs...)...)
	}
	tests := map[string]struct {
		url   string
		creds Credentials
		is    error
		text  string
	}{
		"wrong key": {url, good(KeyIdentity, otherIdentity), ErrUnauthorized, display + "unauthorized"},
		"wrong host key": {
			url, good(KeyKnownHosts, knownHostsLine(server.address, otherKey.PublicKey())), ErrUntrusted,
			display + "host key does not match known_hosts",
		},
		"unknown host": {
			url, good(KeyKnownHosts, knownHostsLine("example.com:22", server.hostKey.PublicKey())), ErrUntrusted,
			display + "host is not in known_hosts",
		},
		"no credentials": {url, Credentials{}, ErrUnauthorized, display + `SSH needs credentials with "identity" and "known_hosts"`},
		"missing repository": {
			server.url("/gone.git"), good(), ErrRepositoryNotFound,
			"repository ssh://" + server.address + "/gone.git: repository not found",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := New(Options{}).Refs(t.Context(), tt.url, tt.creds)
			if !errors.Is(err, tt.is) {
				t.Errorf("error %v, want %v", err, tt.is)
			}
			if err == nil || err.Error() != tt.text {
				t.Errorf("error %q, want %q", err, tt.text)
			}
		})
	}
}

func TestShellQuote(t *testing.T) {
	tests := map[string]string{
		"/a.git":     `'/a.git'`,
		"/it's.git":  `'/it'\''s.git'`,
		"/a!b.git":   `'/a'\!'b.git'`,
		"/$(id).git": `'/$(id).git'`,
	}
	for in, want := range tests {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %q, want %q", in, got, want)
		}
	}
}
