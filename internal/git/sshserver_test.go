package git

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshServer runs git-upload-pack for clients with the right key.
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

// exec runs git-upload-pack; the server rejects other commands.
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
		path, ok := strings.CutPrefix(string(req.Payload[4:]), "git-upload-pack '")
		if !ok {
			return
		}
		cmd := exec.Command("git", "upload-pack", filepath.Join(s.root, strings.TrimSuffix(path, "'")))
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
