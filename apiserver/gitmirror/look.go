package gitmirror

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/gitpack"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/turns"
)

const (
	// maxPackBytes bounds a download.
	maxPackBytes = 256 << 20
	// maxConnectionBytes bounds what is read of a connection over SSH: a download, the branches before it,
	// and messages.
	maxConnectionBytes = maxPackBytes + git.MaxListBytes
	// maxHaves bounds the commits that a download names as present.
	maxHaves = 256
	// readStep is how much of a pack is read at once, in bytes.
	readStep = 32 << 10
)

// packLimits bound the objects of a download. The quotas of the content store bound them all.
var packLimits = gitpack.Limits{Objects: 250_000, Object: modeltree.MaxObjectBytes, Unpacked: 1 << 30, Waiting: 16 << 20, Work: 8 << 30}

// state is what is known of a remote.
type state struct {
	// lookedAt is when the last look that has succeeded began, and defaultBranch its result.
	lookedAt      time.Time
	defaultBranch string
	// failedAt is when the last look failed, if no later one has succeeded, and err why.
	failedAt time.Time
	err      error
	// running is closed at the end of the look in progress; nil if there is none.
	running chan struct{}
}

// ensure brings the mirror up to date if necessary, and returns the default branch of the remote.
func (m *Mirrors) ensure(ctx context.Context, r *remote, need Need) (string, error) {
	asked := m.Now()
	since := asked
	if need == Recent {
		since = asked.Add(-recentFor)
	}
	wait := time.NewTimer(m.Timeouts.Wait)
	defer wait.Stop()
	for {
		m.mu.Lock()
		s := m.stateOf(r)
		switch {
		case s.err == nil && !s.lookedAt.IsZero() && !s.lookedAt.Before(since):
			defer m.mu.Unlock()
			return s.defaultBranch, nil
		case s.err != nil && asked.Sub(s.failedAt) < failureFor:
			defer m.mu.Unlock()
			return s.settle(asked, need)
		}
		running := m.start(ctx, r, s)
		m.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return "", ctx.Err()
		case <-wait.C:
			m.mu.Lock()
			defer m.mu.Unlock()
			if s.servesWithout(asked, need) {
				return s.defaultBranch, nil
			}
			return "", content.Errorf(content.Unavailable, "the Git repository %s is still being read; try again later", r.source.URL)
		}
	}
}

// settle returns the result of a look that has failed: for reads, that of an earlier one if the failure
// may be temporary.
func (s *state) settle(now time.Time, need Need) (string, error) {
	if s.servesWithout(now, need) {
		return s.defaultBranch, nil
	}
	return "", s.err
}

// servesWithout reports whether an earlier look is used without the result of a new one: for reads, while the
// remote does not answer, unless it has answered with a failure that is not temporary.
func (s *state) servesWithout(now time.Time, need Need) bool {
	return need == Recent && !s.lookedAt.IsZero() && now.Sub(s.lookedAt) < staleFor && (s.err == nil || isTemporary(s.err))
}

// stateOf returns the state of a remote. The caller must hold mu.
func (m *Mirrors) stateOf(r *remote) *state {
	k := r.key()
	if s := m.states[k]; s != nil {
		return s
	}
	if len(m.states) >= maxStates {
		for other, s := range m.states {
			if s.running == nil {
				delete(m.states, other)
			}
		}
	}
	s := &state{}
	m.states[k] = s
	return s
}

// start begins a look, or returns the one in progress. It continues when its request ends. The caller
// must hold mu.
func (m *Mirrors) start(ctx context.Context, r *remote, s *state) <-chan struct{} {
	if s.running != nil {
		return s.running
	}
	done, began := make(chan struct{}), m.Now()
	s.running = done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.Timeouts.Look)
	go func() {
		defer cancel()
		defaultBranch, err := m.look(ctx, r)
		m.mu.Lock()
		defer m.mu.Unlock()
		s.running = nil
		if err != nil {
			s.failedAt, s.err = m.Now(), err
		} else {
			s.lookedAt, s.defaultBranch, s.err = began, defaultBranch, nil
		}
		close(done)
	}()
	return done
}

// look reads the branches of a remote, downloads what the mirror lacks, and moves its branches.
func (m *Mirrors) look(ctx context.Context, r *remote) (string, error) {
	account := r.scope.Account.Name
	ctx = turns.WithAccount(ctx, account)
	release, err := m.looks.Acquire(ctx, account)
	if err != nil {
		return "", content.Errorf(content.Unavailable, "too many Git repositories are being read; try again later")
	}
	defer release()
	creds, err := m.credentials(ctx, r, false)
	if err != nil {
		return "", err
	}
	session := m.Repositories.Mirror(ctx, r.scope, r.source.URL, nil)
	before, err := session.Branches()
	if err != nil {
		return "", err
	}
	listCtx, listed := withTimeoutUntil(ctx, m.Timeouts.List)
	defer listed()
	var releaseDownload func()
	defer func() {
		if releaseDownload != nil {
			releaseDownload()
		}
	}()
	refs, defaultBranch, err := m.git.Pull(listCtx, git.PullOptions{
		URL: r.source.URL, Creds: creds, MaxBytes: maxPackBytes,
		Choose: func(refs []git.Ref) (wants, haves []plumbing.Hash, err error) {
			wants, err = missing(session, before, refs)
			if err != nil || len(wants) == 0 {
				return nil, nil, err
			}
			listed()
			if releaseDownload, err = m.downloads.Acquire(ctx, account); err != nil {
				return nil, nil, content.Errorf(content.Unavailable, "too many Git repositories are being downloaded; try again later")
			}
			for _, b := range before[:min(len(before), maxHaves)] {
				haves = append(haves, b.Commit)
			}
			return wants, haves, nil
		},
		Read: func(pack io.Reader) error { return unpack(ctx, account, pack, session) },
	})
	if err != nil {
		return "", explain(r, err)
	}
	after := make(map[string]plumbing.Hash, len(refs))
	for _, ref := range refs {
		if repository.CheckBranchName(ref.Name) == nil {
			after[ref.Name] = plumbing.NewHash(ref.Commit)
		}
	}
	return defaultBranch, explain(r, session.Follow(before, after))
}

// unpack stores the objects of a pack. Accounts take turns for the processors, also between two objects: a few bytes of a pack can
// be an object of the maximum size.
func unpack(ctx context.Context, account string, pack io.Reader, session *repository.Session) error {
	turn, err := fairsemaphore.Processors.Begin(ctx, account)
	if err != nil {
		return err
	}
	defer turn.End()
	session.InTurns(turn)
	defer session.InTurns(nil)
	from := bufio.NewReaderSize(turn.Reader(pack), readStep)
	if err := gitpack.Unpack(from, session, packLimits); err != nil {
		return err
	}
	return session.Store()
}

// withTimeoutUntil returns a context that is cancelled after a timeout, unless the returned function is
// called before.
func withTimeoutUntil(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() { timer.Stop() }
}

// missing returns the commits of branches that are not stored; those of the branches of the mirror are. The history of a stored
// commit is stored.
func missing(s *repository.Session, before []repository.Branch, refs []git.Ref) ([]plumbing.Hash, error) {
	known := make(map[plumbing.Hash]bool, len(refs))
	for _, b := range before {
		known[b.Commit] = true
	}
	var commits []plumbing.Hash
	for _, ref := range refs {
		commit := plumbing.NewHash(ref.Commit)
		if !known[commit] && repository.CheckBranchName(ref.Name) == nil {
			known[commit] = true
			commits = append(commits, commit)
		}
	}
	stored, err := s.Existing(commits)
	if err != nil {
		return nil, fmt.Errorf("read the commits of a mirror: %w", err)
	}
	var wants []plumbing.Hash
	for _, commit := range commits {
		if !stored[commit] {
			wants = append(wants, commit)
		}
	}
	return wants, nil
}
