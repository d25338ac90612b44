package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

// Bounds of a session.
const (
	// maxAddedBytes and maxAddedObjects bound what a session holds in memory of new objects. Beyond
	// them it stores the blobs, which refer to nothing, and rejects more commits and trees.
	maxAddedBytes   = 32 << 20
	maxAddedObjects = 50_000
	// readAheadObjects and readAheadBytes bound what a session reads together with an object: others in
	// the same folder.
	readAheadObjects = 256
	readAheadBytes   = 4 << 20
	// maxTrees and maxTreeBytes bound the trees that a session remembers to read ahead.
	maxTrees     = 1000
	maxTreeBytes = 4 << 20
)

// Session reads the objects of a repository, and holds new ones in memory until Save. It implements
// storer.EncodedObjectStorer. It is not safe for concurrent use.
//
// Objects read are in a cache that all sessions of the process share. With an object, a session reads
// others of the same folder, so a caller that reads them one after the other causes few statements.
type Session struct {
	ctx   context.Context
	all   *Repositories
	scope content.Scope
	// added are the new objects, in the order of addition.
	added      map[plumbing.Hash]*object
	order      []plumbing.Hash
	addedBytes int64
	// trees are the trees that were read last, the latest at the end.
	trees     []*object
	treeBytes int64
	// commits is the number of commits that were read one by one.
	commits int
	// mirror is the mirror that the session reads and writes; nil for the repository itself.
	mirror *mirror
	// maxBytes and maxObjects bound what the session holds.
	maxBytes   int64
	maxObjects int
	// turn is that of long work; nil for none.
	turn Turn
}

// Turn is a place of long work among the processors; *fairsemaphore.Turn implements it.
type Turn interface {
	// Yield lets other work run that waits.
	Yield() error
	// Aside lets other work run while a function waits.
	Aside(wait func() error) error
}

// InTurns lets other work run between two objects, and while the session waits for the database. It ends with nil.
func (s *Session) InTurns(t Turn) { s.turn = t }

func (s *Session) yield() error {
	if s.turn == nil {
		return nil
	}
	return s.turn.Yield()
}

// database returns the database of the session.
func (s *Session) database() content.Database {
	if s.turn == nil {
		return s.all.DB
	}
	return aside{s.all.DB, s.turn}
}

// aside is a database for which work waits while other work runs.
type aside struct {
	content.Database
	turn Turn
}

// Tx implements content.Database.
func (a aside) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	return a.turn.Aside(func() error { return a.Database.Tx(ctx, work) })
}

// Read implements content.Database.
func (a aside) Read(ctx context.Context, work func(q store.Querier) error) error {
	return a.turn.Aside(func() error { return a.Database.Read(ctx, work) })
}

var _ storer.EncodedObjectStorer = (*Session)(nil)

// object is an object in memory. It implements plumbing.EncodedObject and is immutable.
type object struct {
	hash plumbing.Hash
	kind plumbing.ObjectType
	data []byte
}

// Hash implements plumbing.EncodedObject.
func (o *object) Hash() plumbing.Hash { return o.hash }

// Type implements plumbing.EncodedObject.
func (o *object) Type() plumbing.ObjectType { return o.kind }

// SetType implements plumbing.EncodedObject. It has no effect.
func (*object) SetType(plumbing.ObjectType) {}

// Size implements plumbing.EncodedObject.
func (o *object) Size() int64 { return int64(len(o.data)) }

// SetSize implements plumbing.EncodedObject. It has no effect.
func (*object) SetSize(int64) {}

// Reader implements plumbing.EncodedObject.
func (o *object) Reader() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(o.data)), nil }

// Writer implements plumbing.EncodedObject.
func (*object) Writer() (io.WriteCloser, error) {
	return nil, errors.New("a stored object is immutable")
}

// NewEncodedObject implements storer.EncodedObjectStorer.
func (*Session) NewEncodedObject() plumbing.EncodedObject { return &plumbing.MemoryObject{} }

// AddAlternate implements storer.EncodedObjectStorer. It is not supported.
func (*Session) AddAlternate(string) error {
	return errors.New("a repository in the content store has no alternates")
}

// SetEncodedObject implements storer.EncodedObjectStorer. It checks the format of the object; Save
// checks that the objects to which it refers exist. Errors are *content.Error, Invalid or Conflict,
// or those of the database.
func (s *Session) SetEncodedObject(in plumbing.EncodedObject) (plumbing.Hash, error) {
	if err := s.yield(); err != nil {
		return plumbing.ZeroHash, err
	}
	if in.Size() > modeltree.MaxObjectBytes {
		return plumbing.ZeroHash, content.Errorf(content.Invalid, "a %s has %d bytes; allowed: %d", in.Type(), in.Size(), modeltree.MaxObjectBytes)
	}
	data, err := readAll(in)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read a new Git object: %w", err)
	}
	o := &object{plumbing.ComputeHash(in.Type(), data), in.Type(), data}
	if _, err := modeltree.References(o.kind, data); err != nil {
		return plumbing.ZeroHash, content.Errorf(content.Invalid, "object %s: %v", o.hash, err)
	}
	if s.added[o.hash] != nil {
		return o.hash, nil
	}
	if s.addedBytes+o.Size() > s.maxBytes || len(s.order) >= s.maxObjects {
		if err := s.saveBlobs(); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	if s.addedBytes+o.Size() > s.maxBytes || len(s.order) >= s.maxObjects {
		return plumbing.ZeroHash, content.Errorf(content.Conflict, "the change has too many commits and folders; allowed: %d, of %d bytes together", s.maxObjects, s.maxBytes)
	}
	s.added[o.hash], s.order, s.addedBytes = o, append(s.order, o.hash), s.addedBytes+o.Size()
	return o.hash, nil
}

// forget removes new objects that are stored, and keeps them in the cache.
func (s *Session) forget(stored []plumbing.Hash) {
	for _, hash := range stored {
		o := s.added[hash]
		s.all.cache.add(keyOf(s.scope, hash), o)
		s.addedBytes -= o.Size()
		delete(s.added, hash)
	}
	s.order = slices.DeleteFunc(s.order, func(hash plumbing.Hash) bool { return s.added[hash] == nil })
}

// EncodedObject implements storer.EncodedObjectStorer.
func (s *Session) EncodedObject(t plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	if err := s.yield(); err != nil {
		return nil, err
	}
	o, err := s.get(hash)
	if err != nil {
		return nil, err
	}
	if t != plumbing.AnyObject && t != o.kind {
		return nil, plumbing.ErrObjectNotFound
	}
	if o.kind == plumbing.TreeObject {
		s.remember(o)
	}
	return o, nil
}

// get returns an object, or plumbing.ErrObjectNotFound.
func (s *Session) get(hash plumbing.Hash) (*object, error) {
	if o := s.inMemory(hash); o != nil {
		return o, nil
	}
	var found *object
	err := s.load([]plumbing.Hash{hash}, func(in Stored) (err error) {
		if found, err = in.object(); err == nil {
			s.all.cache.add(keyOf(s.scope, hash), found)
		}
		return err
	})
	if err == nil && found == nil {
		err = plumbing.ErrObjectNotFound
	}
	if err == nil {
		err = s.readAhead(found)
	}
	return found, err
}

// inMemory returns an object if it is new or in the cache.
func (s *Session) inMemory(hash plumbing.Hash) *object {
	if o := s.added[hash]; o != nil {
		return o
	}
	o, _ := s.all.cache.object(keyOf(s.scope, hash))
	return o
}

// load calls f with those of the objects that exist.
func (s *Session) load(hashes []plumbing.Hash, f func(in Stored) error) error {
	return s.database().Read(s.ctx, func(q store.Querier) error { return readStored(s.ctx, q, s.scope, hashes, f) })
}

// keep adds an object to the cache.
func (s *Session) keep(in Stored) error {
	o, err := in.object()
	if err == nil {
		s.all.cache.add(keyOf(s.scope, o.hash), o)
	}
	return err
}

// remember remembers a tree for readAhead.
func (s *Session) remember(tree *object) {
	if slices.Contains(s.trees, tree) {
		return
	}
	s.trees, s.treeBytes = append(s.trees, tree), s.treeBytes+tree.Size()
	for len(s.trees) > maxTrees || s.treeBytes > maxTreeBytes && len(s.trees) > 1 {
		s.treeBytes -= s.trees[0].Size()
		s.trees = slices.Delete(s.trees, 0, 1)
	}
}

// readAhead reads objects that a caller is likely to read after one: those of the same type that follow
// it in its folder, or other commits.
func (s *Session) readAhead(o *object) error {
	if o.kind == plumbing.CommitObject {
		if s.commits++; s.commits == 1 {
			return nil // most callers read one
		}
		return s.database().Read(s.ctx, func(q store.Querier) error { return readCommits(s.ctx, q, s.scope, o.hash, s.keep) })
	}
	hash := o.hash
	for _, tree := range slices.Backward(s.trees) {
		if !bytes.Contains(tree.data, hash[:]) {
			continue
		}
		references, err := modeltree.References(plumbing.TreeObject, tree.data)
		if err != nil {
			continue
		}
		at := slices.IndexFunc(references, func(r modeltree.Reference) bool { return r.Hash == hash })
		if at < 0 {
			continue
		}
		var next []plumbing.Hash
		for _, r := range references[at+1:] {
			if r.Type == references[at].Type && s.inMemory(r.Hash) == nil && len(next) < readAheadObjects {
				next = append(next, r.Hash)
			}
		}
		return s.Prefetch(next)
	}
	return nil
}

// Prefetch reads objects to the cache, the first ones up to a bound, so that EncodedObject returns
// them without a statement. Objects that do not exist are left out.
func (s *Session) Prefetch(hashes []plumbing.Hash) error {
	missing := make([]plumbing.Hash, 0, len(hashes))
	for _, hash := range hashes {
		if s.inMemory(hash) == nil {
			missing = append(missing, hash)
		}
	}
	if len(missing) < 2 {
		return nil // EncodedObject reads it with one statement too
	}
	heads, err := s.heads(missing)
	if err != nil {
		return err
	}
	var sum int64
	for i, hash := range missing {
		if sum += heads[hash].size; sum > readAheadBytes {
			missing = missing[:i]
			break
		}
	}
	return s.load(missing, s.keep)
}

// heads returns the types and sizes of those of the objects that exist.
func (s *Session) heads(hashes []plumbing.Hash) (map[plumbing.Hash]head, error) {
	found := make(map[plumbing.Hash]head, len(hashes))
	var missing []plumbing.Hash
	for _, hash := range hashes {
		if o := s.added[hash]; o != nil {
			found[hash] = head{o.kind, o.Size()}
		} else if h, cached := s.all.cache.head(keyOf(s.scope, hash)); cached {
			found[hash] = h
		} else {
			missing = append(missing, hash)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	err := s.database().Read(s.ctx, func(q store.Querier) error {
		records, err := readRecords(s.ctx, q, s.scope, missing)
		for hash, r := range records {
			found[hash] = r.head
			s.all.cache.addHead(keyOf(s.scope, hash), r.head)
		}
		return err
	})
	return found, err
}

// Existing returns those of the objects that are stored now. The other methods may return objects from the cache that a
// collection has deleted since.
func (s *Session) Existing(hashes []plumbing.Hash) (map[plumbing.Hash]bool, error) {
	existing := make(map[plumbing.Hash]bool, len(hashes))
	err := s.database().Read(s.ctx, func(q store.Querier) error {
		records, err := readRecords(s.ctx, q, s.scope, hashes)
		for hash := range records {
			existing[hash] = true
		}
		return err
	})
	return existing, err
}

// EncodedObjectSizes returns the sizes of those of the objects that exist.
func (s *Session) EncodedObjectSizes(hashes []plumbing.Hash) (map[plumbing.Hash]int64, error) {
	heads, err := s.heads(hashes)
	sizes := make(map[plumbing.Hash]int64, len(heads))
	for hash, h := range heads {
		sizes[hash] = h.size
	}
	return sizes, err
}

// EncodedObjectSize implements storer.EncodedObjectStorer.
func (s *Session) EncodedObjectSize(hash plumbing.Hash) (int64, error) {
	heads, err := s.heads([]plumbing.Hash{hash})
	if err != nil {
		return 0, err
	}
	h, found := heads[hash]
	if !found {
		return 0, plumbing.ErrObjectNotFound
	}
	return h.size, nil
}

// HasEncodedObject implements storer.EncodedObjectStorer.
func (s *Session) HasEncodedObject(hash plumbing.Hash) error {
	_, err := s.EncodedObjectSize(hash)
	return err
}

// IterEncodedObjects implements storer.EncodedObjectStorer.
func (s *Session) IterEncodedObjects(t plumbing.ObjectType) (storer.EncodedObjectIter, error) {
	var all []plumbing.Hash
	err := s.database().Read(s.ctx, func(q store.Querier) error {
		all = nil
		return eachHash(s.ctx, q, s.scope, 0, math.MaxInt64, func(r modeltree.Reference) {
			if t == plumbing.AnyObject || t == r.Type {
				all = append(all, r.Hash)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	stored := make(map[plumbing.Hash]bool, len(all))
	for _, hash := range all {
		stored[hash] = true
	}
	for _, hash := range s.order {
		if !stored[hash] && (t == plumbing.AnyObject || t == s.added[hash].kind) {
			all = append(all, hash)
		}
	}
	return storer.NewEncodedObjectLookupIter(s, t, all), nil
}

// EachStored calls f with objects as they are stored, in any order; objects that do not exist, such
// as new ones, are left out. It holds a bounded number of bytes in memory, and no connection to the
// database while f runs. f must not keep the data.
func (s *Session) EachStored(hashes []plumbing.Hash, f func(o Stored) error) error {
	for len(hashes) > 0 {
		n := min(len(hashes), maxHashes)
		heads, err := s.heads(hashes[:n])
		if err != nil {
			return err
		}
		var sum int64
		for i, hash := range hashes[:n] {
			if sum += heads[hash].size; sum > readAheadBytes && i > 0 {
				n = i
				break
			}
		}
		var part []Stored
		err = s.database().Read(s.ctx, func(q store.Querier) error {
			part = part[:0]
			return readStored(s.ctx, q, s.scope, hashes[:n], func(o Stored) error {
				o.Data = bytes.Clone(o.Data)
				part = append(part, o)
				return nil
			})
		})
		if err != nil {
			return err
		}
		for _, o := range part {
			if err := f(o); err != nil {
				return err
			}
		}
		hashes = hashes[n:]
	}
	return nil
}
