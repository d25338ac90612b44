package git

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	defaultSSHUser = "git"
	defaultSSHPort = "22"
)

// maxRemoteMessage bounds the stored text of a server, bytes.
const maxRemoteMessage = 4096

// sshConnection is git-upload-pack or git-receive-pack over SSH. go-git's implementation ignores the
// context while it connects, and reads the SSH configuration of the current
// user.
type sshConnection struct {
	client  *ssh.Client
	session *ssh.Session
	stdin   io.WriteCloser
	packets *packets
	stderr  *messageBuffer
	stop    func() bool // detaches from the context
}

// remoteMessage is the server's output on standard error.
type remoteMessage struct{ text string }

// Error implements error.
func (m *remoteMessage) Error() string { return m.text }

// connectSSH connects, authenticates and starts the service. The end of
// ctx closes the connection at any time.
func (c *Client) connectSSH(ctx context.Context, r remote, creds Credentials, service string) (connection, error) {
	if creds.signer == nil || creds.hosts.check == nil {
		return nil, r.fail(ErrUnauthorized, "SSH needs credentials with %q and %q", KeyIdentity, KeyKnownHosts)
	}
	address := net.JoinHostPort(r.url.Hostname(), r.sshPort())
	conn, err := (&net.Dialer{Timeout: c.options.Timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if c.options.MaxConnectionBytes > 0 {
		conn = &limitedConn{conn, limitedReader{conn, c.options.MaxConnectionBytes}}
	}
	s := &sshConnection{stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	if err := s.handshake(conn, address, r.sshUser(), creds, c.options.Timeout); err != nil {
		s.stop()
		_ = conn.Close()
		if strings.Contains(err.Error(), "unable to authenticate") { // the library has no type for it
			return nil, r.fail(ErrUnauthorized, "unauthorized")
		}
		return nil, err
	}
	if err := s.start(service, r.sshPath()); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// limitedConn is a connection of which a limited number of bytes is read.
type limitedConn struct {
	net.Conn
	limited limitedReader
}

// Read implements net.Conn.
func (c *limitedConn) Read(into []byte) (int, error) { return c.limited.Read(into) }

func (r remote) sshPort() string {
	if port := r.url.Port(); port != "" {
		return port
	}
	return defaultSSHPort
}

func (r remote) sshUser() string {
	if user := r.url.User.Username(); user != "" {
		return user
	}
	return defaultSSHUser
}

// sshPath returns the path for the command line: /~user is a home directory.
func (r remote) sshPath() string {
	if strings.HasPrefix(r.url.Path, "/~") {
		return r.url.Path[1:]
	}
	return r.url.Path
}

func (s *sshConnection) handshake(conn net.Conn, address, user string, creds Credentials, timeout time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User:              user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(creds.signer)},
		HostKeyCallback:   creds.hosts.check,
		HostKeyAlgorithms: creds.hosts.algorithms(address),
	})
	if err != nil {
		return err
	}
	s.client = ssh.NewClient(c, channels, requests)
	return conn.SetDeadline(time.Time{})
}

func (s *sshConnection) start(service, path string) error {
	var err error
	if s.session, err = s.client.NewSession(); err != nil {
		return err
	}
	if s.stdin, err = s.session.StdinPipe(); err != nil {
		return err
	}
	stdout, err := s.session.StdoutPipe()
	if err != nil {
		return err
	}
	s.packets = newPackets(stdout, io.NopCloser(stdout), maxAdvertisement)
	s.stderr = &messageBuffer{}
	s.session.Stderr = s.stderr
	if service == uploadPack {
		// Servers may reject the variable: they use version 0 of the protocol.
		_ = s.session.Setenv("GIT_PROTOCOL", protocolVersion)
	}
	return s.session.Start(service + " " + shellQuote(path))
}

// shellQuote quotes as git's sq_quote_buf does: servers unquote exactly that.
func shellQuote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	return `'` + strings.ReplaceAll(s, `!`, `'\!'`) + `'`
}

// advertisement implements connection; the context of connectSSH applies.
func (s *sshConnection) advertisement(context.Context) (*packets, error) {
	if _, err := s.packets.r.Peek(1); errors.Is(err, io.EOF) {
		_ = s.session.Wait() // the message is complete when the command has ended
		return nil, &remoteMessage{text: s.stderr.String()}
	}
	return s.packets, nil
}

// send implements connection; the context of connectSSH applies. A server that rejects a request before
// it has read all of it has sent the reason.
func (s *sshConnection) send(_ context.Context, r *request, budget int) (*packets, error) {
	if _, err := s.stdin.Write(r.Bytes()); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s.packets.budget = budget
	return s.packets, nil
}

// messages returns what the server has written to standard error.
func (s *sshConnection) messages() string { return s.stderr.String() }

// close implements connection. The flush packet ends the session on the server.
func (s *sshConnection) close() {
	if s.stdin != nil {
		_, _ = s.stdin.Write([]byte(flushPacket))
	}
	s.stop()
	if s.session != nil {
		_ = s.session.Close()
	}
	_ = s.client.Close()
}

// messageBuffer stores the first maxRemoteMessage bytes written to it.
type messageBuffer struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer; it never fails.
func (b *messageBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p[:min(len(p), maxRemoteMessage-len(b.text))]...)
	return len(p), nil
}

// String returns the stored text.
func (b *messageBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
