package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	// attackCommand is the argument that makes this program an attacker. The file with its orders follows.
	attackCommand = "attack"
	// addresses is the number of client addresses of an attacker.
	addresses = 16
	// responseTimeout is the timeout of an attacker for a response.
	responseTimeout = 30 * time.Second
)

// attacker carries out an attack. It counts the outcomes of what it does.
type attacker struct {
	orders

	mu       sync.Mutex
	outcomes map[string]int
}

// carryOut carries out the orders in a file until ctx ends, and writes the outcomes.
func carryOut(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	a := &attacker{outcomes: map[string]int{}}
	if err := json.Unmarshal(text, &a.orders); err != nil {
		return err
	}
	program := programs[a.Attack]
	if program == nil {
		return fmt.Errorf("no attack %q", a.Attack)
	}
	if err := program(ctx, a); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if text, err = json.Marshal(a.outcomes); err != nil {
		return err
	}
	return os.WriteFile(a.Result, text, 0o600)
}

// program carries out an attack until ctx ends.
type program func(ctx context.Context, a *attacker) error

// repeat returns a program that repeats something with a number of workers.
func repeat(workers int, do func(ctx context.Context, a *attacker, worker int) (outcome string)) program {
	return func(ctx context.Context, a *attacker) error {
		var all sync.WaitGroup
		for worker := range workers {
			all.Go(func() {
				for ctx.Err() == nil {
					a.count(do(ctx, a, worker))
				}
			})
		}
		all.Wait()
		return nil
	}
}

func (a *attacker) count(outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcomes[outcome]++
}

// burn uses processor time and sends nothing.
func burn(ctx context.Context, a *attacker) error {
	return repeat(2, func(context.Context, *attacker, int) string {
		sum := 0
		for i := range 1 << 20 {
			sum += i * i
		}
		runtime.KeepAlive(sum)
		return "round"
	})(ctx, a)
}

// dial opens a TCP connection from one of the attacker's addresses, which is closed when ctx ends.
func dial(ctx context.Context, address string, worker int) (net.Conn, error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+worker%addresses))}, Timeout: responseTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		context.AfterFunc(ctx, func() { _ = conn.Close() })
	}
	return conn, err
}

// dialTLS opens a TLS connection to a host. An attacker does not verify certificates.
func dialTLS(ctx context.Context, address, host string, worker int, protocol string) (net.Conn, error) {
	conn, err := dial(ctx, address, worker)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{protocol}})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// hold opens an HTTP connection, sends begin, and then drip every second until the server answers or closes the
// connection. The outcome is the status, or what happened.
func hold(ctx context.Context, address, host string, worker int, begin, drip string) string {
	conn, err := dialTLS(ctx, address, host, worker, "http/1.1")
	if err != nil {
		return "not connected"
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, begin); err != nil {
		return "closed"
	}
	line := make([]byte, 256)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		n, err := conn.Read(line)
		switch {
		case n >= 12 && string(line[:12]) == "HTTP/1.1 101": // the server holds the connection
			continue
		case n >= 12:
			return string(line[9:12])
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return "closed"
		case drip == "":
			continue
		}
		if _, err := io.WriteString(conn, drip); err != nil {
			return "closed"
		}
	}
}

// flood returns a program that sends requests over kept connections, each as soon as the previous one has been answered.
func flood(workers int, address func(a *attacker) (address, host string), request func(a *attacker, worker, n int) string) program {
	return repeat(workers, func(ctx context.Context, a *attacker, worker int) string {
		to, host := address(a)
		conn, err := dialTLS(ctx, to, host, worker, "http/1.1")
		if err != nil {
			return "not connected"
		}
		defer func() { _ = conn.Close() }()
		answers := bufio.NewReader(conn)
		for n := 0; ctx.Err() == nil; n++ {
			_ = conn.SetDeadline(time.Now().Add(responseTimeout))
			if _, err := io.WriteString(conn, request(a, worker, n)); err != nil {
				return "closed"
			}
			response, err := http.ReadResponse(answers, nil)
			if err != nil {
				return "closed"
			}
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			a.count(strconv.Itoa(response.StatusCode))
			if err != nil || response.Close {
				return "closed"
			}
		}
		return "end"
	})
}

// head returns the request line and headers of a request without a body, unless headers announce one.
func head(method, path, host, headers string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n"
}

func bearer(token string) string { return "Authorization: Bearer " + token + "\r\n" }
