package postgres

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

func startup(code uint32, rest ...byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
	return append(binary.BigEndian.AppendUint32(p, code), rest...)
}

func TestReadPacket(t *testing.T) {
	for name, tc := range map[string]struct {
		data []byte
		code uint32 // 0 for an error
	}{
		"start-up":         {startup(196608, []byte("user\x00ann\x00\x00")...), 196608},
		"protocol 3.2":     {startup(196610, 0), 196610},
		"SSL":              {startup(codeSSL), codeSSL},
		"GSS":              {startup(codeGSS), codeGSS},
		"cancel":           {startup(codeCancel, make([]byte, 8)...), codeCancel},
		"cancel, long key": {startup(codeCancel, make([]byte, 260)...), codeCancel},
		"SSL, too long":    {startup(codeSSL, 0), 0},
		"short cancel":     {startup(codeCancel, 0), 0},
		"too short":        {[]byte{0, 0, 0, 7, 0, 3, 0, 0}, 0},
		"negative":         {[]byte{0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0}, 0},
		"too long":         {startup(196608, make([]byte, maxStartup)...), 0},
		"truncated":        {startup(196608, 0)[:8], 0},
		"HTTP":             {[]byte("GET / HTTP/1.1\r\n\r\n"), 0},
		"empty":            {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := readPacket(bytes.NewReader(tc.data), nil)
			if (err == nil) != (tc.code != 0) || p.code != tc.code && err == nil {
				t.Fatalf("code %d, %v; want %d", p.code, err, tc.code)
			}
			if err == nil && !bytes.Equal(p.raw, tc.data) {
				t.Errorf("raw %x, want %x", p.raw, tc.data)
			}
		})
	}
}

// FuzzReadPacket: readPacket reads nothing beyond the packet, and does not panic.
func FuzzReadPacket(f *testing.F) {
	f.Add(startup(codeSSL), []byte{firstTLS})
	f.Add(startup(196608, 0), []byte("more"))
	f.Fuzz(func(t *testing.T, data, more []byte) {
		r := bytes.NewReader(append(bytes.Clone(data), more...))
		p, err := readPacket(r, nil)
		if err != nil {
			return
		}
		if rest, _ := io.ReadAll(r); len(p.raw)+len(rest) != len(data)+len(more) || len(p.raw) > maxStartup {
			t.Errorf("%d octets read of %d", len(p.raw), len(data)+len(more))
		}
	})
}
