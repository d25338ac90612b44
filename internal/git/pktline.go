package git

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// maxPacket is the longest packet, bytes, with its length: gitprotocol-common(5).
const maxPacket = 65520

// Packets without content: the end of a message, and the end of a section of version 2.
const (
	flushPacket = "0000"
	delimPacket = "0001"
)

var (
	errMalformedPacket = errors.New("malformed packet")
	errPacketBudget    = errors.New("message too long")
)

// packetKind is the type of a packet.
type packetKind int

const (
	packetData packetKind = iota
	packetFlush
	packetDelim
)

// packets reads the packets of a server's message. Its memory is one packet, whatever the
// server sends.
type packets struct {
	io.Closer
	r       *bufio.Reader
	pending int // bytes of the last packet, which the next call discards
	budget  int // bytes that may still be read
}

// newPackets returns a reader of at most budget bytes. Only one reader may be in use for r.
func newPackets(r io.Reader, closer io.Closer, budget int) *packets {
	return &packets{Closer: closer, r: bufio.NewReaderSize(r, maxPacket), budget: budget}
}

// next returns the next packet; its payload, without a newline at its end, is valid until the
// next call. The error is io.EOF at the end of the message, *remoteMessage for a packet with
// an error of the server, errMalformedPacket, errPacketBudget, or that of the connection.
func (p *packets) next() (packetKind, []byte, error) {
	p.skip()
	head, err := p.r.Peek(4)
	if err != nil {
		return 0, nil, truncated(err, len(head) > 0)
	}
	var length [2]byte
	if _, err := hex.Decode(length[:], head); err != nil {
		return 0, nil, errMalformedPacket
	}
	n := int(length[0])<<8 | int(length[1])
	if p.budget -= max(n, len(head)); p.budget < 0 {
		return 0, nil, errPacketBudget
	}
	switch {
	case n == 0:
		p.pending = len(head)
		return packetFlush, nil, nil
	case n == 1:
		p.pending = len(head)
		return packetDelim, nil, nil
	case n <= len(head) || n > maxPacket:
		return 0, nil, errMalformedPacket
	}
	packet, err := p.r.Peek(n)
	if err != nil {
		return 0, nil, truncated(err, true)
	}
	p.pending = n
	payload := packet[4:]
	if text, ok := bytes.CutPrefix(payload, []byte("ERR ")); ok {
		return 0, nil, &remoteMessage{text: string(text[:min(len(text), maxRemoteMessage)])}
	}
	return packetData, bytes.TrimSuffix(payload, []byte("\n")), nil
}

// data returns the next packet's payload, or nil at the end of the message or section.
func (p *packets) data() ([]byte, error) {
	kind, payload, err := p.next()
	switch {
	case err != nil:
		return nil, truncated(err, true)
	case kind != packetData:
		return nil, nil
	}
	return payload, nil
}

// rest returns the bytes after the last packet. The budget does not apply to them.
func (p *packets) rest() io.Reader {
	p.skip()
	return p.r
}

func (p *packets) skip() {
	_, _ = p.r.Discard(p.pending) // cannot fail: they have been peeked
	p.pending = 0
}

// truncated turns the end of the stream inside a message into io.ErrUnexpectedEOF.
func truncated(err error, inside bool) error {
	if inside && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// request is a message to a server.
type request struct{ bytes.Buffer }

// line adds a packet.
func (r *request) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(r, "%04x%s\n", len(text)+5, text)
}
