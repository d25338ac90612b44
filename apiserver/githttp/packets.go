package githttp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/quoin-dev/quoin/internal/gitpack"
)

// maxPacket is the longest packet in bytes, with its length: gitprotocol-common(5).
const maxPacket = 65520

// packetKind is the type of a packet.
type packetKind int

const (
	packetData packetKind = iota
	packetFlush
	packetDelimiter
)

// rejection is the reason for which a request is rejected, for the caller.
type rejection = gitpack.Rejection

func rejectf(format string, args ...any) error { return rejection(fmt.Sprintf(format, args...)) }

const errMalformed = rejection("the request is not in the format of the Git protocol")

// packetReader reads packets. Its memory is one packet.
type packetReader struct {
	r io.Reader
	// budget is the number of bytes that may still be read.
	budget int
	buffer []byte
}

func newPacketReader(r io.Reader, budget int) *packetReader {
	return &packetReader{r: r, budget: budget}
}

// next returns the next packet; its payload, without a line feed at its end, is valid until the next
// call. The error is io.EOF at the end of the message.
func (p *packetReader) next() (packetKind, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errMalformed
		}
		return 0, nil, err
	}
	var length [2]byte
	if _, err := hex.Decode(length[:], head[:]); err != nil {
		return 0, nil, errMalformed
	}
	n := int(length[0])<<8 | int(length[1])
	if p.budget -= max(n, len(head)); p.budget < 0 {
		return 0, nil, rejection("the request is too long")
	}
	switch {
	case n == 0:
		return packetFlush, nil, nil
	case n == 1:
		return packetDelimiter, nil, nil
	case n < len(head), n > maxPacket:
		return 0, nil, errMalformed
	}
	n -= len(head)
	if cap(p.buffer) < n {
		p.buffer = make([]byte, n, max(n, 1024))
	}
	p.buffer = p.buffer[:n]
	if _, err := io.ReadFull(p.r, p.buffer); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errMalformed
		}
		return 0, nil, err
	}
	return packetData, bytes.TrimSuffix(p.buffer, []byte("\n")), nil
}

// data returns the payload of the next packet, or false at the end of the section or message.
func (p *packetReader) data() (string, bool, error) {
	kind, payload, err := p.next()
	switch {
	case errors.Is(err, io.EOF):
		return "", false, errMalformed
	case err != nil, kind != packetData:
		return "", false, err
	}
	return string(payload), true, nil
}

// packetWriter writes packets. After an error it writes nothing; err is that error.
type packetWriter struct {
	w   io.Writer
	err error
}

// packet writes a packet with the parts of its payload.
func (p *packetWriter) packet(parts ...[]byte) {
	n := 4
	for _, part := range parts {
		n += len(part)
	}
	p.write(fmt.Appendf(nil, "%04x", n))
	for _, part := range parts {
		p.write(part)
	}
}

// line writes a packet with a line.
func (p *packetWriter) line(format string, args ...any) {
	p.packet(fmt.Appendf(nil, format+"\n", args...))
}

func (p *packetWriter) flush()     { p.write([]byte("0000")) }
func (p *packetWriter) delimiter() { p.write([]byte("0001")) }

func (p *packetWriter) write(data []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(data)
	}
}

// The bands of a multiplexed response: gitprotocol-pack(5), heading "Packfile Data".
const (
	bandData     = 1
	bandProgress = 2
	bandError    = 3
)

// maxBand is the maximum number of bytes of a band in a packet.
const maxBand = maxPacket - 5

// band is a writer of one of the bands of a multiplexed response.
type band struct {
	packets *packetWriter
	number  byte
}

// Write implements io.Writer.
func (b band) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := min(len(rest), maxBand)
		b.packets.packet([]byte{b.number}, rest[:n])
		rest = rest[n:]
	}
	if b.packets.err != nil {
		return 0, b.packets.err
	}
	return len(data), nil
}
