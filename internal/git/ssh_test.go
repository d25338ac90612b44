package git

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
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

// sshServer runs git-upload-pack and git-receive-pack for clients with the right key.
type sshServer struct {
	t       *testing.T
	root    string
	address string
	hostKey ssh.Signer
	config  *ssh.ServerConfig
	// version2 lets clients choose the version of the protocol.
	version2 bool
}

// newKey returns a signer and its private key in PEM form.
func newKey(t *testing.T, passphrase string) (ssh.Signer, string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "test")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "test", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(block))
}

func serveSSH(t *testing.T, root string, client ssh.PublicKey) *sshServer {
	t.Helper()
	hostKey, _ := newKey(t, "")
	s := &sshServer{t: t, root: root, hostKey: hostKey, config: &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(client.Marshal()) {
				return nil, io.EOF
			}
			return nil, nil
		},
	}}
	s.config.AddHostKey(hostKey)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s.address = listener.Addr().String()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *sshServer) url(path string) string { return "ssh://git@" + s.address + path }

func (s *sshServer) knownHosts() string { return knownHostsLine(s.address, s.hostKey.PublicKey()) }

func knownHostsLine(address string, key ssh.PublicKey) string {
	return knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n"
}

func (s *sshServer) serve(conn net.Conn) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for newChannel := range channels {
		channel, requests, err := newChannel.Accept()
		if err != nil {
			return
		}
		go s.exec(channel, requests)
	}
}

// exec runs git-upload-pack or git-receive-pack; the server rejects other commands.
func (s *sshServer) exec(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	env := gitEnv()
	for req := range requests {
		if req.Type == "env" && s.version2 {
			env = append(env, "GIT_PROTOCOL=version=2")
			_ = req.Reply(true, nil)
			continue
		}
		if req.Type != "exec" || len(req.Payload) < 4 {
			_ = req.Reply(false, nil)
			continue
		}
		_ = req.Reply(true, nil)
		service, path, ok := strings.Cut(string(req.Payload[4:]), " '")
		if !ok || service != uploadPack && service != receivePack {
			return
		}
		cmd := exec.Command("git", strings.TrimPrefix(service, "git-"), filepath.Join(s.root, strings.TrimSuffix(path, "'")))
		cmd.Env = env
		cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
		stdin, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			return
		}
		go func() {
			_, _ = io.Copy(stdin, channel)
			_ = stdin.Close()
		}()
		status := byte(0)
		if cmd.Wait() != nil {
			status = 128
		}
		_, _ = channel.SendRequest("exit-status", false, []byte{0, 0, 0, status})
		return
	}
}
