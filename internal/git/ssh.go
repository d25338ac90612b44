package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
)

const (
	defaultSSHUser = "git"
	defaultSSHPort = "22"
)

// sshSession is git-upload-pack over SSH. go-git's implementation ignores the
// context while it connects, and reads the SSH configuration of the current
// user.
type sshSession struct {
	client  *ssh.Client
	session *ssh.Session
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  *messageBuffer
	stop    func() bool // detaches from the context
	refs    *packp.AdvRefs
	wanted  bool // a pack was requested
}

// remoteMessage is the server's output on standard error.
type remoteMessage struct{ text string }

// Error implements error.
func (m *remoteMessage) Error() string { return m.text }

// connectSSH connects, authenticates and starts git-upload-pack. The end of
// ctx closes the connection at any time.
func (c *Client) connectSSH(ctx context.Context, r remote, creds Credentials) (uploadPack, error) {
	if creds.signer == nil || creds.hosts.check == nil {
		return nil, r.fail(ErrUnauthorized, "SSH needs credentials with %q and %q", KeyIdentity, KeyKnownHosts)
	}
	address := net.JoinHostPort(r.url.Hostname(), r.sshPort())
	conn, err := (&net.Dialer{Timeout: c.options.Timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &sshSession{stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	if err := s.handshake(conn, address, r.sshUser(), creds, c.options.Timeout); err != nil {
		s.stop()
		_ = conn.Close()
		if strings.Contains(err.Error(), "unable to authenticate") { // the library has no type for it
			return nil, transport.ErrAuthenticationRequired
		}
		return nil, err
	}
	if err := s.start(r.sshPath()); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

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

func (s *sshSession) handshake(conn net.Conn, address, user string, creds Credentials, timeout time.Duration) error {
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

func (s *sshSession) start(path string) error {
	var err error
	if s.session, err = s.client.NewSession(); err != nil {
		return err
	}
	if s.stdin, err = s.session.StdinPipe(); err != nil {
		return err
	}
	if s.stdout, err = s.session.StdoutPipe(); err != nil {
		return err
	}
	s.stderr = &messageBuffer{}
	s.session.Stderr = s.stderr
	return s.session.Start(transport.UploadPackServiceName + " " + shellQuote(path))
}

// shellQuote quotes as git's sq_quote_buf does: servers unquote exactly that.
func shellQuote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	return `'` + strings.ReplaceAll(s, `!`, `'\!'`) + `'`
}

// AdvertisedReferencesContext implements uploadPack; the context of connectSSH
// applies.
func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	if s.refs != nil {
		return s.refs, nil
	}
	refs := packp.NewAdvRefs()
	limited := &io.LimitedReader{R: s.stdout, N: maxAdvertisement}
	err := refs.Decode(limited)
	switch {
	case limited.N <= 0:
		return nil, errAdvertisement
	case errors.Is(err, packp.ErrEmptyInput):
		_ = s.session.Wait() // the message is complete when the command has ended
		return nil, &remoteMessage{text: s.stderr.String()}
	case errors.Is(err, packp.ErrEmptyAdvRefs), err == nil && refs.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, err
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	s.refs = refs
	return refs, nil
}

// UploadPack implements uploadPack. It sends the request without negotiation:
// the client has no objects yet.
func (s *sshSession) UploadPack(_ context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	s.wanted = true
	if err := req.Validate(); err != nil {
		return nil, err
	}
	var request bytes.Buffer
	if err := req.UploadRequest.Encode(&request); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(&request).Encodef("done\n"); err != nil {
		return nil, err
	}
	if _, err := s.stdin.Write(request.Bytes()); err != nil {
		return nil, err
	}
	if err := s.stdin.Close(); err != nil {
		return nil, err
	}
	resp := packp.NewUploadPackResponse(req)
	return resp, resp.Decode(io.NopCloser(s.stdout))
}

// Close implements uploadPack. Unless a pack was requested, it sends a flush
// packet, which ends the session on the server.
func (s *sshSession) Close() error {
	if s.stdin != nil && !s.wanted {
		_, _ = s.stdin.Write(pktline.FlushPkt)
	}
	s.stop()
	if s.session != nil {
		_ = s.session.Close()
	}
	return s.client.Close()
}

// messageBuffer stores the first 4 KiB written to it.
type messageBuffer struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer; it never fails.
func (b *messageBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p[:min(len(p), 4096-len(b.text))]...)
	return len(p), nil
}

// String returns the stored text.
func (b *messageBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
