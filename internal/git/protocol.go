package git

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	// maxAdvertisement bounds the refs of a server without version 2 of the protocol, bytes. It
	// sends all refs, tags and pull requests too: some 70 bytes each.
	maxAdvertisement = 128 << 20
	// MaxListBytes is enough for a connection that lists refs: Options.MaxConnectionBytes.
	MaxListBytes = maxAdvertisement + 32<<20
	// maxLsRefs bounds the response of a server with version 2, bytes. It sends branches only.
	maxLsRefs = 16 << 20
	// maxCapabilities bounds the number of capabilities of a server, maxCapabilityBytes their
	// message in version 2.
	maxCapabilities    = 256
	maxCapabilityBytes = 64 << 10

	// protocolVersion asks for version 2; servers that do not support it use version 0.
	protocolVersion = "version=2"
	agent           = "quoin"
	headRef         = "HEAD"

	objectFormat = "object-format"
	sha1Format   = "sha1"
)

var errNotGit = errors.New("not a Git server with SHA-1 objects")

// connection is a connection to git-upload-pack or git-receive-pack.
type connection interface {
	// advertisement returns the server's first message.
	advertisement(context.Context) (*packets, error)
	// send sends a request and returns the response, of which at most budget bytes are read as
	// packets.
	send(ctx context.Context, r *request, budget int) (*packets, error)
	// close ends the connection.
	close()
}

// refVisitor is called for each ref of a server. target is the ref to which HEAD refers, empty
// if unknown and for other refs. The arguments are valid during the call only. An error ends
// the reading.
type refVisitor func(name []byte, commit plumbing.Hash, target []byte) error

// capabilities are the capabilities of a server with their values.
type capabilities map[string]string

// has reports whether the server has the capability.
func (c capabilities) has(name string) bool {
	_, ok := c[name]
	return ok
}

// add adds a capability in the form name or name=value.
func (c capabilities) add(text string) error {
	if len(c) >= maxCapabilities {
		return errNotGit
	}
	name, value, _ := strings.Cut(text, "=")
	c[name] = value
	return nil
}

// checkFormat returns an error for repositories with SHA-256 objects.
func (c capabilities) checkFormat() error {
	if format, ok := c[objectFormat]; ok && format != sha1Format {
		return errNotGit
	}
	return nil
}

// session is an open connection whose refs have been read.
type session struct {
	connection
	remote       remote
	version2     bool
	capabilities capabilities
}

// open connects to git-upload-pack and visits the refs: those with one of the prefixes, and others
// too if the server does not support version 2 of the protocol. The caller must close the session.
func (c *Client) open(ctx context.Context, r remote, creds Credentials, prefixes []string, visit refVisitor) (*session, error) {
	s, err := c.openService(ctx, r, creds, uploadPack, prefixes, visit)
	if err != nil {
		return nil, r.transportError(ctx, err)
	}
	return s, nil
}

// openService is open for a service. The error is that of the connection.
func (c *Client) openService(ctx context.Context, r remote, creds Credentials, service string, prefixes []string, visit refVisitor) (*session, error) {
	conn, err := c.connect(ctx, r, creds, service)
	if err != nil {
		return nil, err
	}
	s := &session{connection: conn, remote: r, capabilities: capabilities{}}
	if err := s.readRefs(ctx, prefixes, visit); err != nil {
		conn.close()
		return nil, err
	}
	return s, nil
}

func (c *Client) connect(ctx context.Context, r remote, creds Credentials, service string) (connection, error) {
	if r.url.Scheme == "ssh" {
		return c.connectSSH(ctx, r, creds, service)
	}
	return c.connectHTTP(r, creds, service), nil
}

// readRefs reads the server's first message, and the refs, which are part of it before version
// 2 of the protocol.
func (s *session) readRefs(ctx context.Context, prefixes []string, visit refVisitor) error {
	p, err := s.advertisement(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	first, err := p.data()
	if err == nil && bytes.HasPrefix(first, []byte("# service=")) { // HTTP
		if first, err = p.data(); err == nil && first == nil {
			first, err = p.data()
		}
	}
	if err != nil {
		return err
	}
	switch string(first) {
	case "version 2":
		s.version2 = true
		if err := s.readCapabilities(p); err != nil {
			return err
		}
		return s.lsRefs(ctx, prefixes, visit)
	case "version 1":
		if first, err = p.data(); err != nil {
			return err
		}
	}
	end, err := p.share(ctx)
	if err != nil {
		return err
	}
	defer end()
	return s.advertisedRefs(p, first, visit)
}

// readCapabilities reads a capability advertisement: gitprotocol-v2(5).
func (s *session) readCapabilities(p *packets) error {
	p.budget = maxCapabilityBytes
	for {
		line, err := p.data()
		if err != nil {
			return err
		}
		if line == nil {
			break
		}
		if err := s.capabilities.add(string(line)); err != nil {
			return err
		}
	}
	if !s.capabilities.has("ls-refs") || !s.capabilities.has("fetch") {
		return errNotGit
	}
	return s.capabilities.checkFormat()
}

// command begins a request of version 2; its arguments follow.
func (s *session) command(name string) *request {
	r := &request{}
	r.line("command=%s", name)
	if s.capabilities.has("agent") {
		r.line("agent=%s", agent)
	}
	if s.capabilities.has(objectFormat) {
		r.line("%s=%s", objectFormat, sha1Format)
	}
	_, _ = r.WriteString(delimPacket)
	return r
}

// lsRefs visits the refs with one of the prefixes: gitprotocol-v2(5), heading "ls-refs".
func (s *session) lsRefs(ctx context.Context, prefixes []string, visit refVisitor) error {
	r := s.command("ls-refs")
	r.line("symrefs")
	r.line("peel")
	for _, prefix := range prefixes {
		r.line("ref-prefix %s", prefix)
	}
	_, _ = r.WriteString(flushPacket)
	p, err := s.send(ctx, r, maxLsRefs)
	if err != nil {
		return err
	}
	defer p.Close()
	end, err := p.share(ctx)
	if err != nil {
		return err
	}
	defer end()
	for {
		line, err := p.data()
		if err != nil || line == nil {
			return err
		}
		commit, rest, err := parseRef(line)
		if err != nil {
			return err
		}
		name, attributes, _ := bytes.Cut(rest, []byte(" "))
		var target, peeled []byte
		for attribute := range bytes.SplitSeq(attributes, []byte(" ")) {
			if value, ok := bytes.CutPrefix(attribute, []byte("symref-target:")); ok {
				target = value
			}
			if value, ok := bytes.CutPrefix(attribute, []byte("peeled:")); ok {
				peeled = value
			}
		}
		if err := visit(name, commit, target); err != nil {
			return err
		}
		if err := visitPeeled(name, peeled, visit); err != nil {
			return err
		}
	}
}

// visitPeeled visits the commit of an annotated tag as servers without version 2 advertise it.
func visitPeeled(tag, peeled []byte, visit refVisitor) error {
	if !bytes.HasPrefix(tag, []byte(tagsDir)) || len(peeled) == 0 {
		return nil
	}
	name := slices.Concat(tag, []byte(peeledSuffix))
	commit, _, err := parseRef(slices.Concat(peeled, []byte(" "), name))
	if err != nil {
		return err
	}
	return visit(name, commit, nil)
}

// advertisedRefs visits the refs of a server without version 2: gitprotocol-pack(5), heading
// "Reference Discovery". first is the first line, nil if there is none.
func (s *session) advertisedRefs(p *packets, first []byte, visit refVisitor) error {
	if first == nil {
		return nil // an empty repository
	}
	line, list, ok := bytes.Cut(first, []byte{0})
	if !ok {
		return errNotGit
	}
	var target []byte
	for text := range strings.FieldsSeq(string(list)) {
		if value, ok := strings.CutPrefix(text, "symref="); ok {
			// The only capability that may occur several times.
			if value, ok := strings.CutPrefix(value, headRef+":"); ok {
				target = []byte(value)
			}
			continue
		}
		if err := s.capabilities.add(text); err != nil {
			return err
		}
	}
	if err := s.capabilities.checkFormat(); err != nil {
		return err
	}
	for line != nil {
		if !bytes.HasPrefix(line, []byte("shallow ")) {
			commit, name, err := parseRef(line)
			if err != nil {
				return err
			}
			if string(name) == headRef {
				err = visit(name, commit, target)
			} else if !commit.IsZero() { // "capabilities^{}" of an empty repository
				err = visit(name, commit, nil)
			}
			if err != nil {
				return err
			}
		}
		var err error
		if line, err = p.data(); err != nil {
			return err
		}
	}
	return nil
}

// parseRef splits a line into the commit and what follows it.
func parseRef(line []byte) (plumbing.Hash, []byte, error) {
	const digits = 2 * len(plumbing.Hash{})
	var commit plumbing.Hash
	if len(line) < digits+2 || line[digits] != ' ' {
		return commit, nil, errNotGit
	}
	if _, err := hex.Decode(commit[:], line[:digits]); err != nil {
		return commit, nil, fmt.Errorf("%w: %w", errNotGit, err)
	}
	return commit, line[digits+1:], nil
}
