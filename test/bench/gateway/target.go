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

	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// target is a server under test.
type target struct {
	name, version string
	// trust is nil for plain HTTP.
	address string
	trust   *tls.Config
	// launch starts a new process; accessLog is its file with a line for each request.
	launch    func() (*process.Process, error)
	process   *process.Process
	accessLog string
}

func (t *target) start() (err error) {
	t.process, err = t.launch()
	return err
}

// startAndWait starts the process and waits until a request succeeds.
func (t *target) startAndWait(ctx context.Context, request []byte) error {
	if err := t.start(); err != nil {
		return err
	}
	return process.Await(ctx, t.name, 300, 100*time.Millisecond, func() error { return t.try(request, dataplane.BytesSmall) })
}

// requestTimeout is the timeout of a request, and of a connection attempt.
const requestTimeout = 30 * time.Second

// connection sends one request at a time. It uses less processor time than net/http's client, which would be taken from
// the target.
type connection struct {
	net.Conn
	reader *bufio.Reader
}

func (t *target) dial() (*connection, error) {
	plain, err := net.DialTimeout("tcp", t.address, requestTimeout)
	if err != nil {
		return nil, err
	}
	if t.trust == nil {
		return &connection{plain, bufio.NewReader(plain)}, nil
	}
	secure := tls.Client(plain, t.trust)
	_ = plain.SetDeadline(time.Now().Add(requestTimeout)) // an error shows in the handshake too
	if err := secure.Handshake(); err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("%s: TLS handshake: %w", t.name, err)
	}
	return &connection{secure, bufio.NewReader(secure)}, nil
}

// send sends a request and reads the response, which must have the status 200 and a body of the given size.
func (c *connection) send(request []byte, size int) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	n, err := io.Copy(io.Discard, response.Body)
	switch {
	case err != nil:
		return err
	case n != int64(size):
		return fmt.Errorf("the response has %d bytes, want %d", n, size)
	case response.Close:
		return errors.New("the server closes the connection")
	}
	return nil
}

// try sends one request over a new connection.
func (t *target) try(request []byte, size int) error {
	c, err := t.dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	return c.send(request, size)
}

// request returns an HTTP/1.1 request, as clients of the data API send it.
func (w *world) request(path string) []byte {
	return requestWith(path, "Authorization: "+w.token+"\r\n")
}

func requestWith(path, authorization string) []byte {
	return []byte("POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + authorization +
		"Content-Type: application/json\r\nAccept: */*\r\nUser-Agent: quoin-bench-gateway\r\nContent-Length: " + strconv.Itoa(len(dataplane.Query)) + "\r\n\r\n" + dataplane.Query)
}

// verify checks the responses of all targets, and that the gateway rejects requests without a valid token.
func (w *world) verify() error {
	for _, t := range w.targets() {
		for path, size := range map[string]int{dataplane.PathSmall: dataplane.BytesSmall, dataplane.PathLarge: dataplane.BytesLarge} {
			if err := t.try(w.request(path), size); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	for _, authorization := range []string{"", "Authorization: " + w.token + "x\r\n"} {
		err := w.gateway.try(requestWith(dataplane.PathSmall, authorization), dataplane.BytesSmall)
		if err == nil || !strings.HasPrefix(err.Error(), "401 ") {
			return fmt.Errorf("the gateway accepts an invalid token: %w", err)
		}
	}
	return nil
}
