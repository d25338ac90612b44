package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Codes of start-up packets. Source: PostgreSQL, "Message Formats", and
// src/include/libpq/pqcomm.h.
const (
	codeCancel = 80877102
	codeSSL    = 80877103
	codeGSS    = 80877104
	// firstTLS is the first octet of a TLS handshake record. No start-up packet begins with it:
	// its length would be 369 MB.
	firstTLS = 0x16
)

// maxStartup is the maximum length of a start-up packet (MAX_STARTUP_PACKET_LENGTH).
const maxStartup = 10_000

// SQLSTATEs of rejections.
const (
	stateProtocol    = "08P01" // protocol_violation
	stateNoTLS       = "28000" // invalid_authorization_specification
	stateNoDatabase  = "3D000" // invalid_catalog_name
	stateTooMany     = "53300" // too_many_connections
	stateUnavailable = "57P03" // cannot_connect_now
)

var errPacket = errors.New("malformed start-up packet")

// packet is a start-up packet: its code and all its octets, including the length.
type packet struct {
	code uint32
	raw  []byte
}

// readPacket reads exactly one packet, and nothing beyond it: otherwise, data that follows an
// SSLRequest in plain text would be treated as sent over TLS (CVE-2021-23214).
func readPacket(r io.Reader, already []byte) (packet, error) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(r, head[copy(head, already):]); err != nil {
		return packet{}, err
	}
	length, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	if length < 8 || length > maxStartup {
		return packet{}, errPacket
	}
	switch {
	case code == codeSSL || code == codeGSS:
		if length != 8 {
			return packet{}, errPacket
		}
	case code == codeCancel:
		if length < 16 || length > 8+4+256 { // keys of protocol 3.2 have up to 256 octets
			return packet{}, errPacket
		}
	}
	raw := make([]byte, length)
	copy(raw, head)
	if _, err := io.ReadFull(r, raw[8:]); err != nil {
		return packet{}, fmt.Errorf("%w: %w", errPacket, err)
	}
	return packet{code: code, raw: raw}, nil
}

// errorResponse returns the ErrorResponse message that closes a connection.
func errorResponse(state, message, hint string) []byte {
	body := []byte{'E', 0, 0, 0, 0}
	for _, field := range []struct {
		kind  byte
		value string
	}{{'S', "FATAL"}, {'V', "FATAL"}, {'C', state}, {'M', message}, {'H', hint}} {
		if field.value == "" {
			continue
		}
		body = append(body, field.kind)
		body = append(body, field.value...)
		body = append(body, 0)
	}
	body = append(body, 0)
	binary.BigEndian.PutUint32(body[1:], uint32(len(body)-1)) //nolint:gosec // a sentence or two
	return body
}
