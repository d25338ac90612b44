package gateway

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
)

// maxTokenMessage limits the octets that a client sends over a WebSocket until it has authenticated
// and that are inspected.
const maxTokenMessage = 64 << 10

// tokenConn is the client's side of a WebSocket. It inspects the messages of the client, which are
// forwarded unchanged, until check returns true for a token. Like the server, it expects the token
// in a message {"authorization": "<token>"}. Source:
// packages/cubejs-api-gateway/src/SubscriptionServer.ts, processMessage.
type tokenConn struct {
	net.Conn
	check func(token string) bool

	inspected []byte // not parsed yet
	message   []byte // the payload of fragments
	text      bool
	total     int
}

// CloseWrite closes the write side.
func (c *tokenConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// usedConn is the client's side of a WebSocket to an environment that may sleep. What is sent in either direction is a
// use: a WebSocket may be open, and in use, for longer than an environment stays awake without use.
type usedConn struct {
	net.Conn
	used func()
}

// Read implements net.Conn.
func (c *usedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.used()
	}
	return n, err
}

// Write implements net.Conn.
func (c *usedConn) Write(p []byte) (int, error) {
	c.used()
	return c.Conn.Write(p)
}

// CloseWrite closes the write side.
func (c *usedConn) CloseWrite() error { return closeWrite(c.Conn) }

// Read implements net.Conn.
func (c *tokenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.check == nil || n == 0 {
		return n, err
	}
	if c.total += n; c.total > maxTokenMessage {
		c.stop() // the WebSocket ends with its timeout
		return n, err
	}
	c.inspected = append(c.inspected, p[:n]...)
	for c.check != nil && c.nextFrame() {
	}
	return n, err
}

func (c *tokenConn) stop() { c.check, c.inspected, c.message = nil, nil, nil }

// Opcodes of frames (RFC 6455, section 5.2).
const (
	opContinuation = 0x0
	opText         = 0x1
	opControl      = 0x8 // and above
)

// nextFrame parses a frame. It returns false until the frame is complete.
func (c *tokenConn) nextFrame() bool {
	frame := c.inspected
	if len(frame) < 2 {
		return false
	}
	final, opcode, masked := frame[0]&0x80 != 0, frame[0]&0x0f, frame[1]&0x80 != 0
	length, rest := uint64(frame[1]&0x7f), frame[2:]
	switch {
	case length == 126 && len(rest) >= 2:
		length, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case length == 127 && len(rest) >= 8:
		length, rest = binary.BigEndian.Uint64(rest), rest[8:]
	case length >= 126:
		return false
	}
	if !masked || frame[0]&0x70 != 0 || length > maxTokenMessage {
		c.stop() // not a frame that a client may send
		return false
	}
	if uint64(len(rest)) < 4+length {
		return false
	}
	mask, payload := rest[:4], rest[4:4+length]
	c.inspected = rest[4+length:]
	if opcode >= opControl {
		return true
	}
	if opcode != opContinuation {
		c.message, c.text = nil, opcode == opText
	}
	for i, b := range payload {
		c.message = append(c.message, b^mask[i%4])
	}
	if final {
		c.complete()
	}
	return true
}

// complete inspects a message.
func (c *tokenConn) complete() {
	var message struct {
		Authorization string `json:"authorization"`
	}
	if c.text && json.Unmarshal(c.message, &message) == nil && message.Authorization != "" && c.check(message.Authorization) {
		c.stop()
		return
	}
	c.message = nil
}
