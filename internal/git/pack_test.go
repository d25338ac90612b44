package git

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packOf returns a pack whose header declares count objects.
func packOf(count uint32, objects ...[]byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), count)
	for _, o := range objects {
		out = append(out, o...)
	}
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

// packedObject returns an object with a declared type and size.
func packedObject(kind byte, size uint64, extra, content []byte) []byte {
	first := kind<<4 | byte(size&0x0f)
	size >>= 4
	out := []byte{}
	for size > 0 {
		out = append(out, first|0x80)
		first, size = byte(size&0x7f), size>>7
	}
	out = append(append(out, first), extra...)
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(content)
	_ = w.Close()
	return append(out, z.Bytes()...)
}

func TestPackLimits(t *testing.T) {
	const blob, offsetDelta, refDelta = 3, 6, 7
	bomb := append(binary.AppendUvarint(binary.AppendUvarint(nil, 5), 1<<40), 0x90, 5) // copies 5 bytes, declares 1 TiB
	wrap := append([]byte{5}, bytes.Repeat([]byte{0xff}, 15)...)
	hello := packedObject(blob, 5, nil, []byte("hello"))
	tests := map[string]struct {
		pack []byte
		is   error
	}{
		"good":                      {packOf(1, hello), nil},
		"many objects declared":     {packOf(maxPackObjects+1, hello), errPackObjects},
		"more objects than sent":    {packOf(2, hello), errMalformedPack},
		"huge object declared":      {packOf(1, packedObject(blob, 1<<40, nil, []byte("x"))), errObjectSize},
		"larger than declared":      {packOf(1, packedObject(blob, 5, nil, []byte("hello, world"))), errMalformedPack},
		"delta bomb":                {packOf(2, hello, packedObject(offsetDelta, uint64(len(bomb)), []byte{byte(len(hello))}, bomb)), errObjectSize},
		"delta with endless number": {packOf(2, hello, packedObject(offsetDelta, uint64(len(wrap)), []byte{byte(len(hello))}, wrap)), errObjectSize},
		"missing base":              {packOf(1, packedObject(refDelta, 4, make([]byte, 20), []byte{5, 5, 0x90, 5})), errMalformedPack},
		"not a pack":                {[]byte("<html>"), errMalformedPack},
		"empty":                     {nil, errMalformedPack},
		"bad checksum":              {append(packOf(1, hello)[:len(packOf(1, hello))-1], 0), errMalformedPack},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := storePack(t.Context(), t.TempDir(), bytes.NewReader(tt.pack), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			store, err := p.open(t.Context())
			if !errors.Is(err, tt.is) {
				t.Fatalf("error %v, want %v", err, tt.is)
			}
			if err == nil {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestReceivePackLimits(t *testing.T) {
	dir := t.TempDir()
	if _, err := storePack(t.Context(), dir, strings.NewReader("12345"), 5); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := storePack(t.Context(), dir, strings.NewReader("123456"), 5); !errors.Is(err, errPackSize) {
		t.Errorf("over the limit: %v, want errPackSize", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := storePack(ctx, dir, strings.NewReader("1"), 5); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v, want Canceled", err)
	}
	blocked := filepath.Join(dir, "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var local *localFailure
	if _, err := storePack(t.Context(), blocked, strings.NewReader("1"), 5); !errors.As(err, &local) {
		t.Errorf("no folder: %v, want a localFailure", err)
	}
}

// FuzzPack checks that reading a malformed pack does not panic.
func FuzzPack(f *testing.F) {
	hello := packedObject(3, 5, nil, []byte("hello"))
	f.Add(packOf(1, hello))
	f.Add(packOf(2, hello, packedObject(6, 4, []byte{byte(len(hello))}, []byte{5, 5, 0x90, 5})))
	f.Add(packOf(1, packedObject(7, 4, make([]byte, 20), []byte{5, 5, 0x90, 5})))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := storePack(t.Context(), t.TempDir(), bytes.NewReader(in), 1<<20)
		if err != nil {
			return
		}
		if store, err := p.open(t.Context()); err == nil {
			_ = store.Close()
		}
	})
}
