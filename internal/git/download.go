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
	// shortHistory is how many commits of a branch are downloaded before all
	// are: a commit that is asked for is seldom far from its branch's tip.
	shortHistory = 100

	packFactor = 4
	packFloor  = 64 << 20
)

// attempt is one way to get hold of the commit.
type attempt struct {
	want  plumbing.Hash
	depth int // 0 is the whole history
}

// download gets a pack with the commit in it, and returns it as an object
// store in the workspace.
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
		if i > 0 { // a conversation is for one pack
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

// plan chooses by what the server can: a tip, or a commit it hands out by
// name, is asked for alone; else the branch is. Over HTTP git-upload-pack hands
// out what the branches reach without saying so (its --stateless-rpc), so that
// is worth a try.
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

// try downloads one pack. The store is nil when the commit is not in it.
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

// demultiplex separates the pack from messages where the server mixes them.
func demultiplex(req *packp.UploadPackRequest, resp *packp.UploadPackResponse) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, resp)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, resp)
	}
	return resp
}

// isNotOurRef knows git-upload-pack's answer to a commit that no branch has.
func isNotOurRef(err error) bool {
	var line *pktline.ErrorLine
	text := err.Error()
	if errors.As(err, &line) {
		text = line.Text
	}
	return strings.Contains(text, "not our ref")
}

// packError sorts what goes wrong between the first byte of a pack and its
// index.
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
