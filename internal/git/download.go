package git

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	// shortHistory is the depth of a branch that is downloaded before the full
	// history is: the wanted commit is usually close to the tip of its branch.
	shortHistory = 100

	packFactor = 4
	packFloor  = 64 << 20
)

// attempt is a request that may download the commit.
type attempt struct {
	want  plumbing.Hash
	depth int // 0 means the full history
}

// download downloads a pack that contains the commit, and returns it as an
// object store in the workspace.
func (f *fetch) download(ctx context.Context, work *workspace) (*filesystem.Storage, error) {
	s, err := f.client.open(ctx, f.remote, f.Creds)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	attempts, err := f.plan(s)
	if err != nil {
		return nil, err
	}
	for i, a := range attempts {
		if i > 0 { // a session downloads one pack
			_ = s.Close()
			if s, err = f.client.open(ctx, f.remote, f.Creds); err != nil {
				return nil, err
			}
		}
		store, err := f.try(ctx, s, a, work)
		if err != nil || store != nil {
			return store, err
		}
	}
	return nil, f.commitNotFound()
}

// plan returns the attempts by the server's capabilities: the commit alone if
// it is a tip or the server serves commits by name, otherwise its branch. Over
// HTTP, git-upload-pack serves reachable commits without advertising it
// (--stateless-rpc), so the commit is tried first.
func (f *fetch) plan(s *session) ([]attempt, error) {
	shallow := 0
	if s.refs.Capabilities.Supports(capability.Shallow) {
		shallow = 1
	}
	byName := attempt{f.commit, shallow}
	if s.isTip(f.commit) || s.refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		return []attempt{byName}, nil
	}
	tip, err := f.branchTip(s)
	if err != nil {
		return nil, err
	}
	var attempts []attempt
	if strings.HasPrefix(f.remote.url.Scheme, "http") {
		attempts = append(attempts, byName)
	}
	if shallow > 0 {
		attempts = append(attempts, attempt{tip, shortHistory})
	}
	return append(attempts, attempt{tip, 0}), nil
}

func (s *session) isTip(commit plumbing.Hash) bool {
	if s.refs.Head != nil && *s.refs.Head == commit {
		return true
	}
	for _, hash := range s.refs.References {
		if hash == commit {
			return true
		}
	}
	return false
}

func (f *fetch) branchTip(s *session) (plumbing.Hash, error) {
	if f.Ref == "" {
		if s.refs.Head == nil {
			return plumbing.Hash{}, f.commitNotFound()
		}
		return *s.refs.Head, nil
	}
	name := plumbing.ReferenceName(f.Ref)
	if !strings.HasPrefix(f.Ref, "refs/") {
		name = plumbing.NewBranchReferenceName(f.Ref)
	}
	tip, ok := s.tip(name)
	if !ok {
		return plumbing.Hash{}, f.remote.fail(ErrRefNotFound, "branch %q not found", f.Ref)
	}
	return tip, nil
}

func (f *fetch) commitNotFound() error {
	return f.remote.fail(ErrCommitNotFound, "commit %s not found", f.commit)
}

// try downloads a pack. The store is nil if the pack does not contain the
// commit.
func (f *fetch) try(ctx context.Context, s *session, a attempt, work *workspace) (*filesystem.Storage, error) {
	req := packp.NewUploadPackRequestFromCapabilities(s.refs.Capabilities)
	req.Wants = []plumbing.Hash{a.want}
	if err := limitHistory(req, s.refs.Capabilities, a.depth); err != nil {
		return nil, f.remote.transportError(ctx, err)
	}
	resp, err := s.UploadPack(ctx, req)
	if err != nil && isNotOurRef(err) {
		return nil, nil
	}
	if err != nil {
		return nil, f.remote.transportError(ctx, err)
	}
	defer resp.Close()
	pack, err := work.receive(ctx, demultiplex(req, resp), f.MaxBytes*packFactor+packFloor)
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

func limitHistory(req *packp.UploadPackRequest, server *capability.List, depth int) error {
	if server.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return err
		}
	}
	if depth == 0 {
		return nil
	}
	req.Depth = packp.DepthCommits(depth)
	return req.Capabilities.Set(capability.Shallow)
}

// demultiplex separates the pack from messages if the server multiplexes them.
func demultiplex(req *packp.UploadPackRequest, resp *packp.UploadPackResponse) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, resp)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, resp)
	}
	return resp
}

// isNotOurRef reports whether err is git-upload-pack's response to the request
// of a commit that is in no branch.
func isNotOurRef(err error) bool {
	var line *pktline.ErrorLine
	text := err.Error()
	if errors.As(err, &line) {
		text = line.Text
	}
	return strings.Contains(text, "not our ref")
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
