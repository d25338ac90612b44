package githttp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// message returns packets; "" is a flush packet, and "\x01" a delimiter.
func message(lines ...string) []byte {
	var out bytes.Buffer
	p := &packetWriter{w: &out}
	for _, line := range lines {
		switch line {
		case "":
			p.flush()
		case "\x01":
			p.delimiter()
		default:
			p.line("%s", line)
		}
	}
	return out.Bytes()
}

const someID = "1234567890123456789012345678901234567890"

// Whatever a client sends, the commands of a push are valid or rejected.
func FuzzCommands(f *testing.F) {
	f.Add(message(zeroID+" "+someID+" refs/heads/main\x00report-status side-band-64k", ""))
	f.Add(message("shallow "+someID, someID+" "+zeroID+" refs/heads/x\x00push-options", "", "option", ""))
	f.Add([]byte("0000"))
	f.Add([]byte("0003"))
	f.Add([]byte("fffe"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &push{}
		err := p.readCommands(newPacketReader(bytes.NewReader(data), maxCommandBytes))
		if len(p.commands) > maxCommands {
			t.Errorf("%d commands", len(p.commands))
		}
		checkRejection(t, err)
		for _, c := range p.commands {
			if c.ref == "" {
				t.Errorf("command %+v", c)
			}
		}
	})
}

// Whatever a client sends, the arguments of a fetch are valid or rejected.
func FuzzWants(f *testing.F) {
	f.Add(message("want "+someID+" multi_ack_detailed side-band-64k", "shallow "+someID, "deepen 3", "", "have "+someID, "", "done"))
	f.Add(message("want "+someID, "", "done"))
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &upload{in: newPacketReader(bufio.NewReader(bytes.NewReader(data)), maxFetchRequest)}
		r := &fetchRequest{}
		checkRejection(t, u.readWants(r))
		if len(r.wants) > maxWants || len(r.haves) > maxLookups || r.depth < 0 {
			t.Errorf("%d wants, %d haves, depth %d", len(r.wants), len(r.haves), r.depth)
		}
	})
}

func checkRejection(t *testing.T, err error) {
	t.Helper()
	var rejected rejection
	if err != nil && !errors.As(err, &rejected) {
		t.Errorf("error %v is not for the caller", err)
	}
}

// tinyLimits are limits that random packs reach.
var tinyLimits = packLimits{objects: 50, object: 4 << 10, unpacked: 32 << 10, waiting: 8 << 10, work: 64 << 10}

// Whatever a client sends, the objects of a pack are within the limits, or the pack is rejected.
func FuzzUnpack(f *testing.F) {
	f.Add(packOf(f, "one", "two"))
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := memory.NewStorage()
		checkRejection(t, unpack(bytes.NewReader(data), s, tinyLimits))
		sum := int64(0)
		for _, o := range s.Objects {
			sum += o.Size()
		}
		if len(s.Objects) > int(tinyLimits.objects) || sum > tinyLimits.unpacked {
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
	if err := unpack(bytes.NewReader(pack), memory.NewStorage(), pushLimits); err != nil {
		t.Fatal(err)
	}
	for i := range pack {
		if err := unpack(bytes.NewReader(pack[:i]), memory.NewStorage(), pushLimits); err == nil {
			t.Errorf("a pack is accepted that ends after %d of %d bytes", i, len(pack))
		}
		altered := bytes.Clone(pack)
		altered[i] ^= 0x40
		if err := unpack(bytes.NewReader(altered), memory.NewStorage(), pushLimits); err == nil {
			t.Errorf("a pack is accepted whose byte %d has been altered", i)
		}
	}
	binary.BigEndian.PutUint32(pack[8:], pushLimits.objects+1)
	checkRejection(t, unpack(bytes.NewReader(pack), memory.NewStorage(), pushLimits))
}
