package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// target is what requests are sent to.
type target struct {
	name, version string
	// address to connect to; trust is nil for plain HTTP.
	address string
	trust   *tls.Config
	// launch starts the process again; accessLog is where it writes a line for each request.
	launch    func() (*process.Process, error)
	process   *process.Process
	accessLog string
}

func (t *target) start() (err error) {
	t.process, err = t.launch()
	return err
}

// startAndWait starts the process and waits until it answers.
func (t *target) startAndWait(ctx context.Context, request []byte) error {
	if err := t.start(); err != nil {
		return err
	}
	return process.Await(ctx, t.name, 300, 100*time.Millisecond, func() error { return t.try(request, bytesSmall) })
}

// patience is how long a request may take, and a connection to be made.
const patience = 30 * time.Second

// connection sends one request at a time. It is leaner than net/http's client: what it takes of the
// processors is missing to whom it measures.
type connection struct {
	net.Conn
	reader *bufio.Reader
}

func (t *target) dial() (*connection, error) {
	plain, err := net.DialTimeout("tcp", t.address, patience)
	if err != nil {
		return nil, err
	}
	if t.trust == nil {
		return &connection{plain, bufio.NewReader(plain)}, nil
	}
	secure := tls.Client(plain, t.trust)
	_ = plain.SetDeadline(time.Now().Add(patience)) // fails on a closed connection only, which the handshake tells
	if err := secure.Handshake(); err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("%s: TLS handshake: %w", t.name, err)
	}
	return &connection{secure, bufio.NewReader(secure)}, nil
}

// allow gives the requests that follow some time.
func (c *connection) allow(d time.Duration) error { return c.SetDeadline(time.Now().Add(d)) }

// ask sends a request and reads the answer to its end, which must be 200 with a body of that size.
func (c *connection) ask(request []byte, size int) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return fmt.Errorf("%s: %s", response.Status, said)
	}
	n, err := io.Copy(io.Discard, response.Body)
	switch {
	case err != nil:
		return err
	case n != int64(size):
		return fmt.Errorf("an answer of %d bytes, want %d", n, size)
	case response.Close:
		return errors.New("the connection is not kept open")
	}
	return nil
}

// try asks once, over a connection of its own.
func (t *target) try(request []byte, size int) error {
	c, err := t.dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.allow(patience); err != nil {
		return err
	}
	return c.ask(request, size)
}

// request is one of HTTP/1.1, as a client of the data API sends it.
func (w *world) request(path string) []byte {
	return requestWith(path, "Authorization: "+w.token+"\r\n")
}

func requestWith(path, authorization string) []byte {
	return []byte("POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + authorization +
		"Content-Type: application/json\r\nAccept: */*\r\nUser-Agent: quoin-bench-gateway\r\nContent-Length: " + strconv.Itoa(len(query)) + "\r\n\r\n" + query)
}

// verify checks that all do what they are here for.
func (w *world) verify() error {
	for _, t := range w.targets() {
		for path, size := range map[string]int{pathSmall: bytesSmall, pathLarge: bytesLarge} {
			if err := t.try(w.request(path), size); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	for _, authorization := range []string{"", "Authorization: " + w.token + "x\r\n"} {
		err := w.gateway.try(requestWith(pathSmall, authorization), bytesSmall)
		if err == nil || !strings.HasPrefix(err.Error(), "401 ") {
			return fmt.Errorf("the gateway does not check the token: %w", err)
		}
	}
	return nil
}
