package gitmirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/gitpack"
	"github.com/quoin-dev/quoin/internal/turns"
)

const (
	// maxPushBytes bounds the pack of a push, which is in memory.
	maxPushBytes = 64 << 20
	// maxPushHaves bounds the commits of the remote whose objects are not sent.
	maxPushHaves = 64
)

// push implements repository.Push. After a failure the remote is read again: whether the branches have
// moved, by this push or by another one, is known then.
func (m *Mirrors) push(ctx context.Context, r *remote, s *repository.Session, moves []repository.Move) error {
	failed := m.send(ctx, r, s, moves)
	if failed == nil {
		return nil
	}
	looked := m.again(ctx, r)
	branches, err := s.Branches()
	if err != nil {
		return err
	}
	at := map[string]plumbing.Hash{}
	for _, b := range branches {
		at[b.Name] = b.Commit
	}
	arrived, moved := true, ""
	for _, move := range moves {
		arrived = arrived && at[move.Branch] == move.To
		if at[move.Branch] != move.From && at[move.Branch] != move.To {
			moved = move.Branch
		}
	}
	switch {
	case looked == nil && arrived:
		return nil
	case looked == nil && moved != "":
		return content.Errorf(content.Conflict, "branch %q has moved in the Git repository meanwhile", moved)
	case errors.Is(failed, git.ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", repository.ErrUnknownOutcome, explain(r, failed))
	}
	return explain(r, failed)
}

// send pushes.
func (m *Mirrors) send(ctx context.Context, r *remote, s *repository.Session, moves []repository.Move) error {
	ctx, cancel := context.WithTimeout(turns.WithAccount(ctx, r.scope.Account.Name), m.Timeouts.Push)
	defer cancel()
	release, err := m.pushes.Acquire(ctx, r.scope.Account.Name)
	if err != nil {
		return content.Errorf(content.Unavailable, "too many pushes at the moment; try again")
	}
	defer release()
	creds, err := m.credentials(ctx, r, true)
	if err != nil {
		return err
	}
	o := git.PushOptions{URL: r.source.URL, Creds: creds, Pack: func(has []plumbing.Hash) ([]byte, error) { return packOf(s, moves, has) }}
	for _, move := range moves {
		o.Updates = append(o.Updates, git.Update{Branch: move.Branch, From: move.From, To: move.To})
	}
	return m.git.Push(ctx, o)
}

// packOf returns a pack of the objects of moves that a remote lacks.
func packOf(s *repository.Session, moves []repository.Move, has []plumbing.Hash) ([]byte, error) {
	var request gitpack.Request
	for _, move := range moves {
		if !move.To.IsZero() {
			request.Wants = append(request.Wants, move.To)
		}
		if !move.From.IsZero() { // first, because the new commits are based on it
			request.Haves = append(request.Haves, move.From)
		}
	}
	// Commits that the remote has are not wanted; the others are likely to be based on one of its first.
	for _, commit := range has {
		if slices.Contains(request.Wants, commit) || len(request.Haves) < maxPushHaves {
			request.Haves = append(request.Haves, commit)
		}
	}
	h, err := gitpack.NewHistory(s, request)
	if err != nil {
		return nil, err
	}
	objects, err := h.Objects()
	if err != nil {
		return nil, err
	}
	var pack bounded
	if err := gitpack.Write(&pack, s, objects); err != nil {
		return nil, err
	}
	return pack.Bytes(), nil
}

// bounded is a buffer of at most maxPushBytes.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(data []byte) (int, error) {
	if b.Len()+len(data) > maxPushBytes {
		return 0, content.Errorf(content.Conflict, "the change is larger than %d bytes, which cannot be pushed at once: push it with git, or change fewer files", maxPushBytes)
	}
	return b.Buffer.Write(data)
}

// again looks at a remote after a push, also if it has failed a moment ago.
func (m *Mirrors) again(ctx context.Context, r *remote) error {
	m.mu.Lock()
	m.stateOf(r).err = nil
	m.mu.Unlock()
	_, err := m.ensure(ctx, r, Current)
	return err
}
