package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/turns"
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
	source  *source
	pending int // bytes of the last packet, which the next call discards
	budget  int // bytes that may still be read
}

// newPackets returns a reader of at most budget bytes. Only one reader may be in use for r.
func newPackets(r io.Reader, closer io.Closer, budget int) *packets {
	from := &source{Reader: r}
	return &packets{Closer: closer, r: bufio.NewReaderSize(from, maxPacket), source: from, budget: budget}
}

// source is the stream of packets. While a turn is set, the account has a place among the processors, except
// while it waits for the server.
type source struct {
	io.Reader
	turn *fairsemaphore.Turn
}

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	if s.turn == nil {
		return s.Reader.Read(b)
	}
	return s.turn.Reader(s.Reader).Read(b)
}

// share begins work on packets that a server can make long: accounts take turns for the processors. The caller
// must call end.
func (p *packets) share(ctx context.Context) (end func(), err error) {
	turn, err := fairsemaphore.Processors.Begin(ctx, turns.Account(ctx))
	if err != nil {
		return nil, err
	}
	p.source.turn = turn
	return func() {
		p.source.turn = nil
		turn.End()
	}, nil
}

// next returns the next packet; its payload, without a newline at its end, is valid until the
// next call. The error is io.EOF at the end of the message, *remoteMessage for a packet with
// an error of the server, errMalformedPacket, errPacketBudget, or that of the connection.
func (p *packets) next() (packetKind, []byte, error) {
	kind, payload, err := p.packet()
	if err != nil || kind != packetData {
		return kind, nil, err
	}
	if text, ok := bytes.CutPrefix(payload, []byte("ERR ")); ok {
		return 0, nil, &remoteMessage{text: string(text[:min(len(text), maxRemoteMessage)])}
	}
	return packetData, bytes.TrimSuffix(payload, []byte("\n")), nil
}

// packet returns the next packet as it is.
func (p *packets) packet() (packetKind, []byte, error) {
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
	return packetData, packet[4:], nil
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

// packet adds a packet without a newline at its end.
func (r *request) packet(text string) { fmt.Fprintf(r, "%04x%s", len(text)+4, text) }

// The bands of multiplexed messages: gitprotocol-pack(5), heading "Packfile Data".
const (
	bandData byte = iota + 1
	bandMessages
	bandError
)

// bands reads the data of a multiplexed message, and keeps the first messages for the user. The error
// is *remoteMessage if the server ends with one.
type bands struct {
	packets  *packets
	pending  []byte // of the last packet
	messages messageBuffer
}

// Read implements io.Reader.
func (b *bands) Read(into []byte) (int, error) {
	for len(b.pending) == 0 {
		kind, payload, err := b.packets.packet()
		if err != nil {
			return 0, err
		}
		if kind != packetData {
			return 0, io.EOF
		}
		switch text := payload[1:]; payload[0] {
		case bandData:
			b.pending = text
		case bandMessages:
			_, _ = b.messages.Write(text) // never fails
		case bandError:
			return 0, &remoteMessage{text: string(text[:min(len(text), maxRemoteMessage)])}
		default:
			return 0, errMalformedPacket
		}
	}
	n := copy(into, b.pending)
	b.pending = b.pending[n:]
	return n, nil
}
