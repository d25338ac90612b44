package repository

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

// refreshAfter is the age from which an object that is stored again counts as new for the collection.
// Younger ones are left alone, so that saving the same files often writes nothing.
const refreshAfter = time.Hour

// Save stores the new objects, moves branches and records events, all in one transaction. A branch
// that is not at From is a *content.Error, Conflict; so is a quota that is exceeded, with the limit
// and the use. A new object, or a move, that refers to an object that does not exist is Invalid.
//
// work, if not nil, runs in the same transaction, before the moves. It can run again, so it must have
// no other effects. After an error the new objects are still in the session; after success they are
// stored, and the session can be used again.
//
// In a session on the mirror of a remote, the moves are pushed before they are stored: see Mirror.
func (s *Session) Save(moves []Move, events []audit.Event, work func(ctx context.Context, tx *store.Tx) error) error {
	if err := checkMoves(moves); err != nil {
		return err
	}
	if s.mirror != nil && s.mirror.push != nil && slices.ContainsFunc(moves, func(m Move) bool { return m.From != m.To }) {
		return s.savePushed(moves, events, work)
	}
	change := &change{Session: s, moves: moves, events: events, work: work}
	if err := change.prepare(s.order); err != nil {
		return err
	}
	if err := s.database().Tx(s.ctx, change.run); err != nil {
		return err
	}
	s.forget(s.order)
	return nil
}

// saveBlobs stores the new blobs: nothing refers to them yet, and they to nothing.
func (s *Session) saveBlobs() error {
	var blobs []plumbing.Hash
	for _, hash := range s.order {
		if s.added[hash].kind == plumbing.BlobObject {
			blobs = append(blobs, hash)
		}
	}
	change := &change{Session: s}
	if err := change.prepare(blobs); err != nil || len(blobs) == 0 {
		return err
	}
	if err := s.database().Tx(s.ctx, change.run); err != nil {
		return err
	}
	s.forget(blobs)
	return nil
}

// change is what one transaction changes.
type change struct {
	*Session
	moves  []Move
	events []audit.Event
	work   func(ctx context.Context, tx *store.Tx) error
	// objects are the new objects, compressed.
	objects []Stored
	// references are the objects outside of the change that it refers to, by the object that does; the
	// zero hash stands for a move.
	references map[modeltree.Reference]plumbing.Hash
}

// prepare compresses the objects, before the transaction so that others do not wait for it.
func (c *change) prepare(hashes []plumbing.Hash) error {
	c.references = map[modeltree.Reference]plumbing.Hash{}
	compress, err := newCompressor()
	if err != nil {
		return fmt.Errorf("compress a Git object: %w", err)
	}
	defer compress.release()
	for _, hash := range hashes {
		o := c.added[hash]
		data, err := compress.bytes(o.data)
		if err != nil {
			return fmt.Errorf("compress a Git object: %w", err)
		}
		c.objects = append(c.objects, Stored{hash, o.kind, o.Size(), data})
		references, err := modeltree.References(o.kind, o.data)
		if err != nil {
			return fmt.Errorf("object %s: %w", hash, err)
		}
		for _, r := range references {
			if err := c.refer(r, hash); err != nil {
				return err
			}
		}
	}
	for _, m := range c.moves {
		if m.To.IsZero() || m.To == m.From {
			continue
		}
		if err := c.refer(modeltree.Reference{Hash: m.To, Type: plumbing.CommitObject}, plumbing.ZeroHash); err != nil {
			return err
		}
	}
	return nil
}

// refer notes a reference to an object that is not new.
func (c *change) refer(to modeltree.Reference, from plumbing.Hash) error {
	o := c.added[to.Hash]
	if o == nil {
		c.references[to] = from
		return nil
	}
	return checkType(to, from, o.kind)
}

// checkType returns an error if an object is not of the type that a reference has.
func checkType(to modeltree.Reference, from plumbing.Hash, found plumbing.ObjectType) error {
	if found == to.Type {
		return nil
	}
	what := "a branch"
	if !from.IsZero() {
		what = fmt.Sprintf("object %s", from)
	}
	if found == plumbing.InvalidObject {
		return content.Errorf(content.Invalid, "%s refers to the %s %s, which does not exist", what, to.Type, to.Hash)
	}
	return content.Errorf(content.Invalid, "%s refers to %s as a %s, which is a %s", what, to.Hash, to.Type, found)
}

// run is the transaction. It can run again.
func (c *change) run(tx *store.Tx) error {
	if err := tx.LockDeployment(c.ctx, c.scope.Account, c.scope.Deployment); err != nil {
		return err
	}
	if err := c.runChanges(tx); err != nil {
		return err
	}
	for _, e := range c.events {
		if err := c.all.Record(c.ctx, tx, e); err != nil {
			return err
		}
	}
	return nil
}

// runChanges stores the objects, runs work, and moves the branches.
func (c *change) runChanges(tx *store.Tx) error {
	work := c.work
	if work == nil {
		work = func(context.Context, *store.Tx) error { return nil }
	}
	if len(c.objects)+len(c.moves) == 0 {
		return work(c.ctx, tx)
	}
	before, err := lockUse(c.ctx, tx, c.scope)
	if err != nil {
		return err
	}
	after := before
	if err := c.store(c.ctx, tx, &after); err != nil {
		return err
	}
	if err := work(c.ctx, tx); err != nil {
		return err
	}
	for _, deletes := range []bool{true, false} { // a branch can take the place of a deleted one
		for _, m := range c.moves {
			if m.To.IsZero() != deletes {
				continue
			}
			created, err := m.apply(c.ctx, tx, c.scope, c.mirror, c.all.now())
			if err != nil {
				return err
			}
			after.branches += created
		}
	}
	return after.save(c.ctx, tx, c.scope, before, c.quota())
}

// store stores the new objects, after checking that all that they refer to exist.
func (c *change) store(ctx context.Context, tx *store.Tx, u *use) error {
	hashes := make([]plumbing.Hash, 0, len(c.objects)+len(c.references))
	for _, o := range c.objects {
		hashes = append(hashes, o.Hash)
	}
	for r := range c.references {
		hashes = append(hashes, r.Hash)
	}
	existing, err := readRecords(ctx, tx, c.scope, hashes)
	if err != nil {
		return err
	}
	for r, from := range c.references {
		if err := checkType(r, from, existing[r.Hash].kind); err != nil {
			return err
		}
	}
	now := c.all.now()
	var missing []Stored
	var old []plumbing.Hash
	for _, o := range c.objects {
		if r, exists := existing[o.Hash]; !exists {
			missing = append(missing, o)
			u.objects, u.bytes = u.objects+1, u.bytes+int64(len(o.Data))
		} else if r.createdAt < now.Add(-refreshAfter).UnixMicro() {
			old = append(old, o.Hash)
		}
	}
	if err := refresh(ctx, tx, c.scope, old, now); err != nil {
		return err
	}
	return insert(ctx, tx, c.scope, missing, now)
}
