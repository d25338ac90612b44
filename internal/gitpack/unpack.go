package gitpack

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/quoin-dev/quoin/internal/modeltree"
)

// Limits bound a pack.
type Limits struct {
	// Objects is the maximum number of objects, Object the maximum size of one, Unpacked that of all,
	// in bytes.
	Objects          uint32
	Object, Unpacked int64
	// Waiting is the maximum number of bytes of deltas that arrive before their base, and of tags: they are
	// kept in memory.
	Waiting int64
	// Work is the maximum number of bytes of the objects that deltas refer to: a small delta of a
	// large object costs as much as the object.
	Work int64
}

// PushLimits are the limits of the pack of a push.
var PushLimits = Limits{Objects: 100_000, Object: modeltree.MaxObjectBytes, Unpacked: 256 << 20, Waiting: 16 << 20, Work: 2 << 30}

// SourceError is an error of the reader of a pack.
type SourceError struct{ Err error }

// Error implements error.
func (e *SourceError) Error() string { return "read a pack: " + e.Err.Error() }

// Unwrap returns the error of the reader.
func (e *SourceError) Unwrap() error { return e.Err }

// source is a reader that keeps its error. A pack that ends early is damaged; that is no error of its
// reader.
type source struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(data []byte) (int, error) {
	n, err := s.Reader.Read(data)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// unpacker unpacks a pack as it arrives. Each delta is applied as soon as its base is known, so the
// length of a chain of deltas does not matter.
type unpacker struct {
	limits Limits
	source *source
	// unpacked and work are the bytes so far.
	unpacked, work int64
	scanner        *packfile.Scanner
	to             storer.EncodedObjectStorer
	// offsets are the objects by the offset at which they begin.
	offsets map[int64]plumbing.Hash
	// tags are the tags, which are not added to the store, because others can be deltas of them.
	tags map[plumbing.Hash]plumbing.EncodedObject
	// byName and byOffset are deltas whose base has not arrived, waiting their number, and waitingBytes
	// the bytes of all that have waited, and of the tags.
	byName       map[plumbing.Hash][]delta
	byOffset     map[int64][]delta
	waiting      int
	waitingBytes int64
}

// delta is an object as the difference from another one.
type delta struct {
	offset  int64
	content []byte
}

// Unpack reads a pack and adds its objects to a store. It rejects a pack that is damaged, exceeds the
// limits, or has a delta of an object that does not exist. Tags are omitted, because only branches can
// refer to objects. The error is a Rejection, a *SourceError, or that of the store.
func Unpack(r io.Reader, to storer.EncodedObjectStorer, limits Limits) error {
	from := &source{Reader: r}
	u := &unpacker{
		limits: limits, source: from, scanner: packfile.NewScanner(from), to: to, offsets: map[int64]plumbing.Hash{},
		tags: map[plumbing.Hash]plumbing.EncodedObject{}, byName: map[plumbing.Hash][]delta{}, byOffset: map[int64][]delta{},
	}
	_, count, err := u.scanner.Header()
	if err != nil {
		return u.damaged()
	}
	if count > limits.Objects {
		return rejectf("the pack has %d objects; allowed: %d", count, limits.Objects)
	}
	for range count {
		if err := u.next(); err != nil {
			return err
		}
	}
	if _, err := u.scanner.Checksum(); err != nil {
		return u.damaged()
	}
	if u.waiting > 0 {
		return Rejection("an object of the pack is the difference from one that does not exist")
	}
	return nil
}

// errDamaged is the rejection of a pack that is not in the format.
const errDamaged = Rejection("the pack is damaged")

// damaged returns the error for a pack that cannot be read.
func (u *unpacker) damaged() error {
	if u.source.err != nil {
		return &SourceError{u.source.err}
	}
	return errDamaged
}

// spend takes bytes from the limit of all objects.
func (u *unpacker) spend(n int64) error {
	if n > u.limits.Object {
		return rejectf("an object of the pack is larger than %d bytes", u.limits.Object)
	}
	if u.unpacked += n; u.unpacked > u.limits.Unpacked {
		return rejectf("the objects of the pack are larger than %d bytes", u.limits.Unpacked)
	}
	return nil
}

// next reads the next object.
func (u *unpacker) next() error {
	header, err := u.scanner.NextObjectHeader()
	if err != nil {
		return u.damaged()
	}
	if header.Length < 0 {
		return errDamaged
	}
	if err := u.spend(header.Length); err != nil {
		return err
	}
	content := bytes.NewBuffer(make([]byte, 0, header.Length))
	n, _, err := u.scanner.NextObject(content)
	if err != nil || n != header.Length {
		return u.damaged()
	}
	d := delta{header.Offset, content.Bytes()}
	switch header.Type {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		return u.add(header.Type, d)
	case plumbing.OFSDeltaObject:
		if base, ok := u.offsets[header.OffsetReference]; ok {
			return u.apply(base, d)
		}
		u.byOffset[header.OffsetReference] = append(u.byOffset[header.OffsetReference], d)
	case plumbing.REFDeltaObject:
		switch err := u.apply(header.Reference, d); {
		case err == nil:
			return nil
		case !errors.Is(err, plumbing.ErrObjectNotFound):
			return err
		}
		u.byName[header.Reference] = append(u.byName[header.Reference], d)
	default:
		return errDamaged
	}
	u.waiting++
	return u.keep(d.content)
}

// keep takes the bytes of what is kept in memory from their limit.
func (u *unpacker) keep(content []byte) error {
	if u.waitingBytes += int64(len(content)); u.waitingBytes > u.limits.Waiting {
		return Rejection("too many objects of the pack are differences from later ones, or tags")
	}
	return nil
}

// object returns an object of the store, or a tag of the pack.
func (u *unpacker) object(hash plumbing.Hash) (plumbing.EncodedObject, error) {
	if tag, found := u.tags[hash]; found {
		return tag, nil
	}
	return u.to.EncodedObject(plumbing.AnyObject, hash)
}

// apply applies a delta to an object.
func (u *unpacker) apply(base plumbing.Hash, d delta) error {
	kind, content, err := u.patch(base, d)
	if err != nil {
		return err
	}
	return u.add(kind, delta{d.offset, content})
}

// patch returns the type and content of a delta of an object. The error is
// plumbing.ErrObjectNotFound if the object does not exist.
func (u *unpacker) patch(base plumbing.Hash, d delta) (plumbing.ObjectType, []byte, error) {
	source, target, err := deltaSizes(d.content)
	if err != nil {
		return 0, nil, err
	}
	object, err := u.object(base)
	if err != nil {
		return 0, nil, err
	}
	if object.Size() != source {
		return 0, nil, errDamaged
	}
	if err := u.spend(target); err != nil {
		return 0, nil, err
	}
	if u.work += source + target; u.work > u.limits.Work {
		return 0, nil, rejectf("the deltas of the pack refer to more than %d bytes", u.limits.Work)
	}
	reader, err := object.Reader()
	if err != nil {
		return 0, nil, fmt.Errorf("read object %s: %w", base, err)
	}
	defer reader.Close()
	from := make([]byte, source)
	if _, err := io.ReadFull(reader, from); err != nil {
		return 0, nil, fmt.Errorf("read object %s: %w", base, err)
	}
	content, err := packfile.PatchDelta(from, d.content)
	if err != nil || int64(len(content)) != target {
		return 0, nil, errDamaged
	}
	return object.Type(), content, nil
}

// deltaSizes returns the sizes of the base and of the result of a delta: gitformat-pack(5), heading
// "Deltified representation".
func deltaSizes(content []byte) (source, target int64, err error) {
	var sizes [2]int64
	for i := range sizes {
		shift, more := 0, true
		for more {
			if len(content) == 0 || shift > 49 {
				return 0, 0, errDamaged
			}
			sizes[i] |= int64(content[0]&0x7f) << shift
			more, shift, content = content[0]&0x80 != 0, shift+7, content[1:]
		}
	}
	return sizes[0], sizes[1], nil
}

// add adds an object, and those that were waiting for it. One of them is in memory at a time: a few bytes
// of a delta can be an object of the maximum size.
func (u *unpacker) add(kind plumbing.ObjectType, d delta) error {
	hash, err := u.store(kind, d.content)
	if err != nil {
		return err
	}
	for queue := u.ready(hash, d.offset); len(queue) > 0; {
		next := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		kind, content, err := u.patch(next.base, next.delta)
		if err != nil {
			return err
		}
		if hash, err = u.store(kind, content); err != nil {
			return err
		}
		queue = append(queue, u.ready(hash, next.offset)...)
	}
	return nil
}

// dependent is a delta whose base has arrived.
type dependent struct {
	base plumbing.Hash
	delta
}

// ready returns the deltas that were waiting for an object, which no longer wait.
func (u *unpacker) ready(hash plumbing.Hash, offset int64) []dependent {
	u.offsets[offset] = hash
	var all []dependent
	for _, d := range u.byOffset[offset] {
		all = append(all, dependent{hash, d})
	}
	for _, d := range u.byName[hash] {
		all = append(all, dependent{hash, d})
	}
	delete(u.byOffset, offset)
	delete(u.byName, hash)
	u.waiting -= len(all)
	return all
}

// store adds an object to the store, and a tag to the tags.
func (u *unpacker) store(kind plumbing.ObjectType, content []byte) (plumbing.Hash, error) {
	object := u.to.NewEncodedObject()
	object.SetType(kind)
	object.SetSize(int64(len(content)))
	w, err := object.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := w.Write(content); err != nil {
		return plumbing.ZeroHash, err
	}
	if err := w.Close(); err != nil {
		return plumbing.ZeroHash, err
	}
	if kind == plumbing.TagObject {
		u.tags[object.Hash()] = object
		return object.Hash(), u.keep(content)
	}
	return u.to.SetEncodedObject(object)
}
