package githttp

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

// packLimits bound the pack of a push.
type packLimits struct {
	// objects is the maximum number of objects, object the maximum size of one, unpacked that of all,
	// in bytes.
	objects          uint32
	object, unpacked int64
	// waiting is the maximum number of bytes of deltas that arrive before their base: they are kept in
	// memory.
	waiting int64
	// work is the maximum number of bytes of the objects that deltas refer to: a small delta of a
	// large object costs as much as the object.
	work int64
}

var pushLimits = packLimits{objects: 100_000, object: modeltree.MaxObjectBytes, unpacked: 256 << 20, waiting: 16 << 20, work: 2 << 30}

// unpacker unpacks a pack as it arrives. Each delta is applied as soon as its base is known, so the
// length of a chain of deltas does not matter.
type unpacker struct {
	limits packLimits
	// unpacked and work are the bytes so far.
	unpacked, work int64
	scanner        *packfile.Scanner
	to             storer.EncodedObjectStorer
	// offsets are the objects by the offset at which they begin.
	offsets map[int64]plumbing.Hash
	// byName and byOffset are deltas whose base has not arrived, waiting their number, and waitingBytes
	// the bytes of all that have waited.
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

// unpack reads a pack and adds its objects to a store. It rejects a pack that is damaged, exceeds the
// limits, or has a delta of an object that does not exist. Tags are omitted, because only branches can
// refer to objects.
func unpack(r io.Reader, to storer.EncodedObjectStorer, limits packLimits) error {
	u := &unpacker{
		limits: limits, scanner: packfile.NewScanner(r), to: to, offsets: map[int64]plumbing.Hash{},
		byName: map[plumbing.Hash][]delta{}, byOffset: map[int64][]delta{},
	}
	_, count, err := u.scanner.Header()
	if err != nil {
		return damaged(err)
	}
	if count > limits.objects {
		return rejectf("the push has %d objects; allowed: %d", count, limits.objects)
	}
	for range count {
		if err := u.next(); err != nil {
			return err
		}
	}
	if _, err := u.scanner.Checksum(); err != nil {
		return damaged(err)
	}
	if u.waiting > 0 {
		return rejection("an object of the push is the difference from one that does not exist")
	}
	return nil
}

// damaged turns errors of reading a pack into rejections.
func damaged(err error) error {
	if _, known := explain(err); known {
		return err
	}
	return rejection("the pack is damaged")
}

// spend takes bytes from the limit of all objects.
func (u *unpacker) spend(n int64) error {
	if n > u.limits.object {
		return rejectf("an object of the push is larger than %d bytes", u.limits.object)
	}
	if u.unpacked += n; u.unpacked > u.limits.unpacked {
		return rejectf("the objects of the push are larger than %d bytes", u.limits.unpacked)
	}
	return nil
}

// next reads the next object.
func (u *unpacker) next() error {
	header, err := u.scanner.NextObjectHeader()
	if err != nil {
		return damaged(err)
	}
	if header.Length < 0 {
		return damaged(packfile.ErrMalformedPackFile)
	}
	if err := u.spend(header.Length); err != nil {
		return err
	}
	content := bytes.NewBuffer(make([]byte, 0, header.Length))
	n, _, err := u.scanner.NextObject(content)
	if err == nil && n != header.Length {
		err = packfile.ErrMalformedPackFile
	}
	if err != nil {
		return damaged(err)
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
		return damaged(packfile.ErrMalformedPackFile)
	}
	u.waiting++
	if u.waitingBytes += int64(len(d.content)); u.waitingBytes > u.limits.waiting {
		return rejection("too many objects of the push are differences from later ones")
	}
	return nil
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
	object, err := u.to.EncodedObject(plumbing.AnyObject, base)
	if err != nil {
		return 0, nil, err
	}
	if object.Size() != source {
		return 0, nil, damaged(packfile.ErrInvalidDelta)
	}
	if err := u.spend(target); err != nil {
		return 0, nil, err
	}
	if u.work += source + target; u.work > u.limits.work {
		return 0, nil, rejectf("the deltas of the push refer to more than %d bytes", u.limits.work)
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
		return 0, nil, damaged(packfile.ErrInvalidDelta)
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
				return 0, 0, damaged(packfile.ErrInvalidDelta)
			}
			sizes[i] |= int64(content[0]&0x7f) << shift
			more, shift, content = content[0]&0x80 != 0, shift+7, content[1:]
		}
	}
	return sizes[0], sizes[1], nil
}

// add adds an object, and those that were waiting for it.
func (u *unpacker) add(kind plumbing.ObjectType, d delta) error {
	type arrived struct {
		kind plumbing.ObjectType
		delta
	}
	for queue := []arrived{{kind, d}}; len(queue) > 0; {
		next := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		hash, err := u.store(next.kind, next.content)
		if err != nil {
			return err
		}
		u.offsets[next.offset] = hash
		ready := append(u.byOffset[next.offset], u.byName[hash]...)
		delete(u.byOffset, next.offset)
		delete(u.byName, hash)
		for _, waited := range ready {
			u.waiting--
			kind, content, err := u.patch(hash, waited)
			if err != nil {
				return err
			}
			queue = append(queue, arrived{kind, delta{waited.offset, content}})
		}
	}
	return nil
}

// store adds an object to the store.
func (u *unpacker) store(kind plumbing.ObjectType, content []byte) (plumbing.Hash, error) {
	if kind == plumbing.TagObject {
		return plumbing.ComputeHash(kind, content), nil
	}
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
	return u.to.SetEncodedObject(object)
}
