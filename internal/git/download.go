package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	// shortHistory is the depth of a branch that is downloaded before the full
	// history is: the wanted commit is usually close to the tip of its branch.
	shortHistory = 100

	packFactor = 4
	packFloor  = 64 << 20

	// maxPackHeader bounds what a server sends before the pack, bytes.
	maxPackHeader = 1 << 20

	// sideBand is the capability to multiplex a pack with messages, in version 0.
	sideBand = "side-band-64k"
)

// attempt is a request that may download the commit.
type attempt struct {
	want  plumbing.Hash
	depth int // 0 means the full history
}

// packRequest are the arguments of the request of a pack.
type packRequest struct {
	wants, haves []plumbing.Hash
	depth        int // 0 means the full history
	// maxBytes limits the response, with the messages in it; 0 means no limit.
	maxBytes int64
}

// tips are the refs of a server that a fetch depends on.
type tips struct {
	commit plumbing.Hash // the wanted commit
	ref    string        // the full name of the wanted ref; HEAD if none is wanted
	isTip  bool          // the commit is that of a ref
	tip    plumbing.Hash // the commit of the wanted ref; zero if there is none
}

// visit implements refVisitor.
func (t *tips) visit(name []byte, commit plumbing.Hash, _ []byte) error {
	t.isTip = t.isTip || commit == t.commit
	if string(name) == t.ref {
		t.tip = commit
	}
	return nil
}

// open connects and reads the tips.
func (f *fetch) open(ctx context.Context) (*session, *tips, error) {
	t := &tips{commit: f.commit, ref: headRef}
	if f.Ref != "" {
		t.ref = f.Ref
		if !strings.HasPrefix(f.Ref, "refs/") {
			t.ref = headsDir + f.Ref
		}
	}
	s, err := f.client.open(ctx, f.remote, f.Creds, []string{headRef, t.ref}, t.visit)
	return s, t, err
}

// download downloads a pack that contains the commit, and returns it as an
// object store in the workspace.
func (f *fetch) download(ctx context.Context, work *workspace) (*filesystem.Storage, error) {
	s, t, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { s.close() }()
	attempts := f.plan(s, t)
	for i, a := range attempts {
		if i > 0 { // a session downloads one pack
			s.close()
			next, _, err := f.open(ctx)
			if err != nil {
				return nil, err
			}
			s = next
		}
		store, err := f.try(ctx, s, a, work)
		if err != nil || store != nil {
			return store, err
		}
	}
	return nil, f.notFound(t)
}

// plan returns the attempts by the server's capabilities: the commit alone if
// it is a tip or the server serves commits by name, otherwise its branch. In
// version 2, and over HTTP, git-upload-pack serves commits without advertising
// it, so the commit is tried first.
func (f *fetch) plan(s *session, t *tips) []attempt {
	shallow := 0
	if s.supportsShallow() {
		shallow = 1
	}
	byName := attempt{f.commit, shallow}
	switch {
	case t.isTip, s.capabilities.has("allow-reachable-sha1-in-want"), s.version2 && t.tip.IsZero():
		return []attempt{byName}
	case t.tip.IsZero():
		return nil
	}
	var attempts []attempt
	if s.version2 || strings.HasPrefix(f.remote.url.Scheme, "http") {
		attempts = append(attempts, byName)
	}
	if shallow > 0 {
		attempts = append(attempts, attempt{t.tip, shortHistory})
	}
	return append(attempts, attempt{t.tip, 0})
}

// notFound returns the error when no attempt found the commit.
func (f *fetch) notFound(t *tips) error {
	if t.tip.IsZero() && f.Ref != "" {
		return f.remote.fail(ErrRefNotFound, "branch %q not found", f.Ref)
	}
	return f.remote.fail(ErrCommitNotFound, "commit %s not found", f.commit)
}

// try downloads a pack. The store is nil if the pack does not contain the
// commit.
func (f *fetch) try(ctx context.Context, s *session, a attempt, work *workspace) (*filesystem.Storage, error) {
	content, closer, err := s.requestPack(ctx, packRequest{wants: []plumbing.Hash{a.want}, depth: a.depth})
	if err != nil && isNotOurRef(err) {
		return nil, nil
	}
	if err != nil {
		return nil, f.remote.transportError(ctx, err)
	}
	defer closer.Close()
	pack, err := work.receive(ctx, content, f.MaxBytes*packFactor+packFloor)
	if err != nil {
		return nil, f.packError(ctx, err)
	}
	store, err := pack.open(ctx)
	if err != nil {
		return nil, f.packError(ctx, err)
	}
	if err := store.HasEncodedObject(f.commit); err != nil {
		if err := errors.Join(store.Close(), pack.remove()); err != nil {
			return nil, f.localError(err)
		}
		return nil, nil
	}
	return store, nil
}

// isNotOurRef reports whether err is git-upload-pack's response to the request
// of a commit that is in no branch.
func isNotOurRef(err error) bool {
	var message *remoteMessage
	return errors.As(err, &message) && strings.Contains(message.text, "not our ref")
}

// packError returns the error for a failure to receive or index a pack.
func (f *fetch) packError(ctx context.Context, err error) error {
	var local *localFailure
	switch {
	case ctx.Err() != nil:
		return f.remote.transportError(ctx, err)
	case errors.As(err, &local):
		return f.localError(local.err)
	case errors.Is(err, errPackSize):
		return f.remote.fail(ErrTooLarge, "the download is larger than %d bytes", f.MaxBytes*packFactor+packFloor)
	case errors.Is(err, errPackObjects):
		return f.remote.fail(ErrTooLarge, "the repository has more than %d objects", maxPackObjects)
	case errors.Is(err, errObjectSize):
		return f.remote.fail(ErrTooLarge, "the repository has an object larger than %d bytes", maxObjectSize)
	case errors.Is(err, errMalformedPack):
		return f.remote.fail(ErrUnreachable, "the download is damaged")
	}
	return f.remote.transportError(ctx, err)
}

// supportsShallow reports whether the server sends commits without their history.
func (s *session) supportsShallow() bool {
	if s.version2 {
		return slices.Contains(strings.Fields(s.capabilities["fetch"]), "shallow")
	}
	return s.capabilities.has("shallow")
}

// requestPack requests a pack, without negotiation: the client names what it has at once. It returns
// the pack and the end of its response.
func (s *session) requestPack(ctx context.Context, a packRequest) (io.Reader, io.Closer, error) {
	r := s.packRequest0(a)
	if s.version2 {
		r = s.packRequest2(a)
	}
	p, err := s.send(ctx, r, maxPackHeader)
	if err != nil {
		return nil, nil, err
	}
	multiplexed := true
	if s.version2 {
		err = p.skipSections()
	} else {
		multiplexed, err = s.capabilities.has(sideBand), p.skipAcknowledgments(a)
	}
	if err != nil {
		_ = p.Close()
		return nil, nil, err
	}
	content := p.rest()
	if a.maxBytes > 0 {
		content = &limitedReader{content, a.maxBytes}
	}
	if multiplexed {
		content = sideband.NewDemuxer(sideband.Sideband64k, content)
	}
	return content, p, nil
}

// limitedReader reads at most left bytes. Beyond them, the error is errPackSize.
type limitedReader struct {
	io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limitedReader) Read(into []byte) (int, error) {
	n, err := l.Reader.Read(into)
	if l.left -= int64(n); l.left < 0 {
		return 0, errPackSize
	}
	return n, err
}

// packRequest0 returns a request in version 0: gitprotocol-pack(5), heading "Packfile
// Negotiation".
func (s *session) packRequest0(a packRequest) *request {
	wanted := []string{"agent=" + agent}
	for _, name := range []string{"no-progress", "ofs-delta", sideBand} {
		if s.capabilities.has(name) {
			wanted = append(wanted, name)
		}
	}
	if a.depth > 0 {
		wanted = append(wanted, "shallow")
	}
	r := &request{}
	for i, want := range a.wants {
		if i > 0 {
			r.line("want %s", want)
			continue
		}
		r.line("want %s %s", want, strings.Join(wanted, " "))
	}
	if a.depth > 0 {
		r.line("deepen %d", a.depth)
	}
	_, _ = r.WriteString(flushPacket)
	for _, have := range a.haves {
		r.line("have %s", have)
	}
	r.line("done")
	return r
}

// packRequest2 returns a request in version 2: gitprotocol-v2(5), heading "fetch".
func (s *session) packRequest2(a packRequest) *request {
	r := s.command("fetch")
	r.line("no-progress")
	r.line("ofs-delta")
	for _, want := range a.wants {
		r.line("want %s", want)
	}
	for _, have := range a.haves {
		r.line("have %s", have)
	}
	if a.depth > 0 {
		r.line("deepen %d", a.depth)
	}
	r.line("done")
	_, _ = r.WriteString(flushPacket)
	return r
}

// skipAcknowledgments reads a response in version 0 up to its pack.
func (p *packets) skipAcknowledgments(a packRequest) error {
	if a.depth > 0 { // the shallow commits
		for {
			line, err := p.data()
			if err != nil {
				return err
			}
			if line == nil {
				break
			}
		}
	}
	// Without multi_ack, the answer is one line: the first commit that both have, or NAK.
	line, err := p.data()
	if err == nil && !bytes.HasPrefix(line, []byte("NAK")) && !bytes.HasPrefix(line, []byte("ACK ")) {
		err = errNotGit
	}
	return err
}

// skipSections reads a response in version 2 up to its pack.
func (p *packets) skipSections() error {
	for {
		kind, line, err := p.next()
		switch {
		case err != nil:
			return truncated(err, true)
		case kind == packetFlush:
			return errNotGit
		case kind == packetData && string(line) == "packfile":
			return nil
		}
	}
}

// PullOptions configure Pull.
type PullOptions struct {
	URL   string
	Creds Credentials
	// Choose returns the commits to download, of the branches of the remote, and commits that the caller
	// has with their histories. Without commits to download, nothing is.
	Choose func(refs []Ref) (wants, haves []plumbing.Hash, err error)
	// Read reads the pack: all objects that the histories of wants have and those of haves lack.
	Read func(pack io.Reader) error
	// MaxBytes limits the response with the pack: a server may add messages without end.
	MaxBytes int64
}

// Pull reads the branches of a remote as Refs does, and downloads commits with their histories, over
// one connection. The error is as that of Refs, or that of Choose or Read.
func (c *Client) Pull(ctx context.Context, o PullOptions) ([]Ref, string, error) {
	r, err := parseURL(o.URL, c.options)
	if err != nil {
		return nil, "", err
	}
	list := &branchList{remote: r, refs: []Ref{}}
	s, err := c.open(ctx, r, o.Creds, []string{headRef, headsDir}, list.visit)
	if err != nil {
		return nil, "", err
	}
	defer s.close()
	refs, defaultBranch := list.sorted(), list.defaultBranch()
	wants, haves, err := o.Choose(refs)
	if err != nil || len(wants) == 0 {
		return refs, defaultBranch, err
	}
	content, closer, err := s.requestPack(ctx, packRequest{wants: wants, haves: haves, maxBytes: o.MaxBytes})
	if err != nil {
		return nil, "", r.transportError(ctx, err)
	}
	defer closer.Close()
	pack := &trackedPack{contextReader: contextReader{ctx, content}}
	err = o.Read(pack)
	switch {
	case errors.Is(pack.err, errPackSize):
		return nil, "", r.fail(ErrTooLarge, "the download is larger than %d bytes", o.MaxBytes)
	case pack.err != nil:
		return nil, "", r.transportError(ctx, pack.err)
	case err != nil && ctx.Err() != nil:
		return nil, "", r.transportError(ctx, err)
	}
	return refs, defaultBranch, err
}

// trackedPack is a pack that keeps its error.
type trackedPack struct {
	contextReader
	err error
}

// Read implements io.Reader.
func (p *trackedPack) Read(into []byte) (int, error) {
	n, err := p.contextReader.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}
