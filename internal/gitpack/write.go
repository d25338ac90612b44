package gitpack

import (
	"crypto/sha1" //nolint:gosec // the format of packs
	"encoding/binary"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content/repository"
)

// Stored are objects as they are stored, which is also their form in a pack.
type Stored interface {
	// EachStored calls f with the objects, in any order; those that do not exist are left out.
	EachStored(objects []plumbing.Hash, f func(repository.Stored) error) error
}

// Write writes a pack of objects, without deltas: gitformat-pack(5).
func Write(to io.Writer, from Stored, objects []plumbing.Hash) error {
	sum := sha1.New() //nolint:gosec // the format of packs
	w := io.MultiWriter(to, sum)
	header := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects))) //nolint:gosec // at most maxHistory
	if _, err := w.Write(header); err != nil {
		return err
	}
	written := 0
	err := from.EachStored(objects, func(o repository.Stored) error {
		written++
		if _, err := w.Write(objectHeader(o.Type, o.Size)); err != nil {
			return err
		}
		_, err := w.Write(o.Data)
		return err
	})
	if err == nil && written != len(objects) {
		err = fmt.Errorf("%d of %d objects do not exist", len(objects)-written, len(objects))
	}
	if err != nil {
		return err
	}
	_, err = to.Write(sum.Sum(nil))
	return err
}

// objectHeader returns the type and the size of an object in a pack: the size in groups of bits, the
// least significant first, of which the first has 4 and the others 7.
func objectHeader(kind plumbing.ObjectType, size int64) []byte {
	group := byte(kind)<<4 | byte(size&0x0f) // #nosec G115 -- types are 1 to 7
	var header []byte
	for size >>= 4; size > 0; size >>= 7 {
		header = append(header, group|0x80)
		group = byte(size & 0x7f)
	}
	return append(header, group)
}
