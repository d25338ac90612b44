package gitpack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

func checkRejection(t *testing.T, err error) {
	t.Helper()
	var rejected Rejection
	if err != nil && !errors.As(err, &rejected) {
		t.Errorf("error %v is not for the sender", err)
	}
}

// tinyLimits are limits that random packs reach.
var tinyLimits = Limits{Objects: 50, Object: 4 << 10, Unpacked: 32 << 10, Waiting: 8 << 10, Work: 64 << 10}

// Whatever a client sends, the objects of a pack are within the limits, or the pack is rejected.
func FuzzUnpack(f *testing.F) {
	f.Add(packOf(f, "one", "two"))
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := memory.NewStorage()
		checkRejection(t, Unpack(bytes.NewReader(data), s, tinyLimits))
		sum := int64(0)
		for _, o := range s.Objects {
			sum += o.Size()
		}
		if len(s.Objects) > int(tinyLimits.Objects) || sum > tinyLimits.Unpacked {
			t.Errorf("%d objects of %d bytes", len(s.Objects), sum)
		}
	})
}

// packOf returns a pack of blobs, as go-git writes it.
func packOf(t testing.TB, texts ...string) []byte {
	t.Helper()
	s := memory.NewStorage()
	var hashes []plumbing.Hash
	for _, text := range texts {
		o := s.NewEncodedObject()
		o.SetType(plumbing.BlobObject)
		w, err := o.Writer()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		hash, err := s.SetEncodedObject(o)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, hash)
	}
	var out bytes.Buffer
	if _, err := packfile.NewEncoder(&out, s, false).Encode(hashes, 10); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A pack that is cut off or altered is rejected, at every byte.
func TestDamagedPacks(t *testing.T) {
	pack := packOf(t, "cubes: []", "views: []")
	if err := Unpack(bytes.NewReader(pack), memory.NewStorage(), PushLimits); err != nil {
		t.Fatal(err)
	}
	for i := range pack {
		if err := Unpack(bytes.NewReader(pack[:i]), memory.NewStorage(), PushLimits); err == nil {
			t.Errorf("a pack is accepted that ends after %d of %d bytes", i, len(pack))
		}
		altered := bytes.Clone(pack)
		altered[i] ^= 0x40
		if err := Unpack(bytes.NewReader(altered), memory.NewStorage(), PushLimits); err == nil {
			t.Errorf("a pack is accepted whose byte %d has been altered", i)
		}
	}
	binary.BigEndian.PutUint32(pack[8:], PushLimits.Objects+1)
	checkRejection(t, Unpack(bytes.NewReader(pack), memory.NewStorage(), PushLimits))
}
