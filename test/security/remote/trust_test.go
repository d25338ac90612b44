package remote_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/quoin-dev/quoin/apiserver/gitmirror"
)

// redirects makes a host redirect the requests that have a part in their address.
func (h *host) redirects(part, to string) {
	h.set(func() {
		h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.RequestURI(), part) {
				return false
			}
			http.Redirect(w, r, to+r.URL.RequestURI(), http.StatusTemporaryRedirect)
			return true
		}
	})
}

// credentials returns the number of requests of a host with credentials.
func (h *host) credentials() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.authorized
}

// TestRedirects: the host redirects to another one, which is to receive the credentials or the objects.
func TestRedirects(t *testing.T) {
	w, h, thief := newWorld(t, gitmirror.Timeouts{}), newHost(t), newHost(t)
	elsewhere := strings.TrimSuffix(thief.url, "/model.git")
	w.uses("acme", h.url, basic())
	dev := w.enter("acme")
	before := h.at(dev)
	for name, part := range map[string]string{"the beginning of a push": "service=git-receive-pack", "the objects of a push": "model.git/git-receive-pack", "the request of the branches": "model.git/git-upload-pack"} {
		h.redirects(part, elsewhere)
		w.later()
		w.write("acme", name+"\n").is(502, "redirect refused")
	}
	// A repository that has moved may be read there, without the credentials.
	h.redirects("service=git-upload-pack", elsewhere)
	w.later()
	w.call("acme", "GET", "/data-model/files", nil).is(200)
	if n := thief.credentials(); n > 0 {
		t.Errorf("the other host has received the credentials %d times", n)
	}
	if h.at(dev) != before || len(thief.heads) != 1 {
		t.Error("a branch has moved")
	}
	h.redirects("model.git/info/refs", "") // to itself
	w.later()
	w.write("acme", "loop\n").is(502, "redirect refused")
	h.honest()
	w.later()
	w.enter("acme")
	w.write("acme", "honest\n").is(200)
}

// overTLS serves a host with a certificate that only its returned PEM form is trusted for.
func overTLS(t *testing.T, h *host) (address string, ca []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// TestRedirectToPlainHTTP: a host with TLS redirects to one without it.
func TestRedirectToPlainHTTP(t *testing.T) {
	w, h, thief := newWorld(t, gitmirror.Timeouts{}), newHost(t), newHost(t)
	address, ca := overTLS(t, h)
	secret := basic()
	secret["ca.crt"] = ca
	w.uses("acme", address+"/model.git", secret)
	w.enter("acme")
	for _, part := range []string{"service=git-upload-pack", "service=git-receive-pack", "model.git/git-receive-pack"} {
		h.redirects(part, strings.TrimSuffix(thief.url, "/model.git"))
		w.later()
		w.write("acme", part+"\n").is(502, "redirect refused")
	}
	if thief.sent.Load() > 0 {
		t.Error("the host without TLS was asked")
	}
}

// TestUntrustedCertificate: another server answers at the address of the host. It does not receive the
// credentials, and the response describes what to do if it is the right one.
func TestUntrustedCertificate(t *testing.T) {
	w, h := newWorld(t, gitmirror.Timeouts{}), newHost(t)
	address, ca := overTLS(t, h)
	w.uses("acme", address+"/model.git", basic())
	for range 2 {
		w.call("acme", "GET", "/data-model/files", nil).is(502, "certificate signed by unknown authority", "Secret of spec.model.git.secretRef")
		w.call("acme", "POST", "/dev-mode", nil).is(502, "certificate signed by unknown authority")
		w.later()
	}
	secret := basic()
	secret["ca.crt"] = ca
	w.uses("acme", strings.Replace(address, "127.0.0.1", "localhost", 1)+"/model.git", secret)
	w.call("acme", "POST", "/dev-mode", nil).is(502, "certificate is not valid for this host")
	if n := h.credentials(); n > 0 {
		t.Errorf("the host has received the credentials %d times", n)
	}
	// After a good look, the certificate is another one: also reads are told.
	w.uses("acme", address+"/model.git", secret)
	w.enter("acme")
	w.uses("acme", address+"/model.git", basic())
	w.later()
	w.call("acme", "GET", "/data-model/files", nil).is(502, "unknown authority")
	w.write("acme", "b\n").is(502, "unknown authority")
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

// sshHost accepts connections with SSH and counts the clients that have authenticated.
func sshHost(t *testing.T, key ssh.Signer) (address string, authenticated chan struct{}) {
	t.Helper()
	authenticated = make(chan struct{}, 100)
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		authenticated <- struct{}{}
		return nil, nil
	}}
	config.AddHostKey(key)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if c, channels, requests, err := ssh.NewServerConn(conn, config); err == nil {
					go ssh.DiscardRequests(requests)
					for channel := range channels {
						_ = channel.Reject(ssh.Prohibited, "no "+password)
					}
					_ = c.Close()
				}
			}()
		}
	}()
	return listener.Addr().String(), authenticated
}

// TestWrongHostKey: the host has another key than the one in known_hosts, or none is known. No client
// authenticates, and the response describes what to do.
func TestWrongHostKey(t *testing.T) {
	w := newWorld(t, gitmirror.Timeouts{})
	key, _ := newKey(t)
	other, identity := newKey(t)
	address, authenticated := sshHost(t, key)
	line := func(host string, key ssh.Signer) []byte {
		return []byte(knownhosts.Line([]string{knownhosts.Normalize(host)}, key.PublicKey()) + "\n")
	}
	for words, hosts := range map[string][]byte{
		"host key does not match known_hosts": line(address, other),
		"host is not in known_hosts":          line("git.example.com:22", key),
	} {
		w.uses("acme", "ssh://git@"+address+"/model.git", map[string][]byte{"identity": identity, "known_hosts": hosts})
		w.later()
		w.call("acme", "GET", "/data-model/files", nil).is(502, words, "Secret of spec.model.git.secretRef")
		w.call("acme", "POST", "/dev-mode", nil).is(502, words)
	}
	if n := len(authenticated); n > 0 {
		t.Errorf("%d clients have authenticated", n)
	}
	w.uses("acme", "ssh://git@"+address+"/model.git", map[string][]byte{"identity": identity, "known_hosts": line(address, key)})
	w.later()
	a := w.call("acme", "GET", "/data-model/files", nil).is(502, "no usable response")
	w.checkSecrets(a)
	if len(authenticated) == 0 {
		t.Error("the right key is not accepted")
	}
}

// counting is a connection whose writes are counted.
type counting struct {
	net.Conn
	sent *atomic.Int64
}

// Write implements net.Conn.
func (c counting) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	c.sent.Add(int64(n))
	return n, err
}

// TestMessagesOverSSH: the host sends messages beside the objects without end. What is read is bounded.
func TestMessagesOverSSH(t *testing.T) {
	w := newWorld(t, gitmirror.Timeouts{Wait: time.Minute, List: time.Minute})
	key, identity := newKey(t)
	config := &ssh.ServerConfig{NoClientAuth: true, PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(key)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var sent atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go talk(counting{conn, &sent}, config)
		}
	}()
	address := listener.Addr().String()
	hosts := knownhosts.Line([]string{knownhosts.Normalize(address)}, key.PublicKey()) + "\n"
	w.uses("acme", "ssh://git@"+address+"/model.git", map[string][]byte{"identity": identity, "known_hosts": []byte(hosts)})
	grown := heapDuring(func() { w.call("acme", "GET", "/data-model/files", nil).is(502, "try again later") })
	if n := sent.Load(); n > 448<<20 || n < 1<<20 || grown > 64<<20 {
		t.Errorf("the host has sent %d MiB, and the heap grew by %d MiB", n>>20, grown>>20)
	}
}

// talk runs commands that write messages without end.
func talk(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for request := range requests {
			_ = request.Reply(true, nil)
			if request.Type == "exec" {
				go endless(channel.Stderr(), bytes.Repeat([]byte("x"), 30_000))
			}
		}
	}
}
