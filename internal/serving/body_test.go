package serving

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/quoin-dev/quoin/internal/serving/deadlinetest"
)

// shortGrace is shorter than the grace of Wrap, for short tests.
const shortGrace = 200 * time.Millisecond

// slowServer returns a server with a handler of requests whose bodies must have 1 MiB per second.
func slowServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	limited := limitBody(1<<20, nil, Pace{Grace: shortGrace, Timeout: time.Minute, Rate: 1 << 20})(handler)
	server := httptest.NewServer(recoverPanics(slog.New(slog.DiscardHandler), nil)(limited))
	t.Cleanup(server.Close)
	return server
}

func echo(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		WriteReadError(w, err)
		return
	}
	_, _ = w.Write(data)
}

// open sends the head of a request with the beginning of its body.
func open(t *testing.T, server *httptest.Server, length int, begin string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", length, begin); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A body that stops ends with 408, and its connection is closed.
func TestSlowBody(t *testing.T) {
	server := slowServer(t, echo)
	conn := open(t, server, 100, "x")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	wantError(t, response, http.StatusRequestTimeout, "too slowly")
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
}

// The deadline ends with the body: the handler may take longer, and the connection is used again.
func TestBodyDeadlineEnds(t *testing.T) {
	var canceled atomic.Bool
	server := slowServer(t, func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		select {
		case <-r.Context().Done():
			canceled.Store(true)
		case <-time.After(2 * shortGrace):
		}
	})
	for range 2 {
		response, err := server.Client().Post(server.URL, "text/plain", strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(response.Body)
		if err != nil || string(data) != "text" || canceled.Load() {
			t.Errorf("%s, %v, canceled %t", data, err, canceled.Load())
		}
		_ = response.Body.Close()
	}
}

// After an error, the rest of a body is not waited for, and a client that has sent it keeps its connection.
func TestRefusedBodies(t *testing.T) {
	server := slowServer(t, func(w http.ResponseWriter, _ *http.Request) { WriteBusy(w, http.StatusTooManyRequests, "busy") })
	reader := bufio.NewReader(open(t, server, 100, "x"))
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	wantError(t, response, http.StatusTooManyRequests, "busy")
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("the connection of a client that does not send the body is open: %v", err)
	}
	conn := open(t, server, 4, "text")
	reader = bufio.NewReader(conn)
	for i := range 2 {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("response %d: %v", i, err)
		}
		wantError(t, response, http.StatusTooManyRequests, "busy")
		_ = response.Body.Close()
		if i == 0 {
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The deadline of a body depends on what was received so far and on the time that was spent waiting for it, and not on when.
func TestPace(t *testing.T) {
	const stall = 2 * time.Minute
	pace := Pace{Grace: 20 * time.Second, Rate: 1 << 10, Stall: stall}
	for name, tc := range map[string]struct {
		timeout, waited time.Duration
		received        int64
		min, max        time.Duration
	}{
		"the first octet":         {0, 0, 0, 19 * time.Second, 20 * time.Second},
		"octet by octet":          {0, 19 * time.Second, 19, 0, 2 * time.Second},
		"too slow":                {0, 21 * time.Second, 21, -time.Hour, 0},
		"slow":                    {0, 60 * time.Second, 120 << 10, 79 * time.Second, 80 * time.Second},
		"fast":                    {0, time.Second, 1 << 20, stall - time.Second, stall},
		"fast, after a long time": {0, time.Hour, 64 << 20, stall - time.Second, stall},
		"long, with a timeout":    {time.Minute, 59 * time.Second, 1 << 20, 0, time.Second},
		"too long":                {time.Minute, 61 * time.Second, 1 << 20, -time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			conn := deadlinetest.NewRecorder()
			pace.Timeout = tc.timeout
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("more"))
			b := newTimedBody(conn, r, pace)
			b.waited, b.received = tc.waited, tc.received
			if _, err := b.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if left := time.Until(conn.ReadDeadline); left < tc.min || left > tc.max {
				t.Errorf("the deadline is in %s, want %s to %s", left, tc.min, tc.max)
			}
			if _, err := b.Read(make([]byte, 1)); err != nil || conn.ReadChanges != 1 {
				t.Errorf("%v, the deadline was set %d times", err, conn.ReadChanges)
			}
			if _, err := io.Copy(io.Discard, b); err != nil || !conn.ReadDeadline.IsZero() {
				t.Errorf("%v; after the end of the body, the deadline is %s", err, conn.ReadDeadline)
			}
		})
	}
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(os.ErrDeadlineExceeded))
	failing := newTimedBody(httptest.NewRecorder(), r, pace)
	var timeout net.Error
	if _, err := failing.Read(make([]byte, 1)); !errors.Is(err, ErrSlowBody) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("after the deadline: %v", err)
	}
}

// TestResponseToASlowBody: the timeout of the response, which begins with the request, leaves time for the response when a body may
// take as long. A deadline of the handler remains.
func TestResponseToASlowBody(t *testing.T) {
	pace := Pace{Grace: 10 * time.Second, Rate: 16 << 10, Timeout: time.Minute}
	for name, tc := range map[string]struct {
		received int64
		extended bool
	}{"short": {1 << 10, false}, "long": {1 << 20, true}} {
		conn := deadlinetest.NewRecorder()
		ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{WriteTimeout: time.Minute})
		read := func(set bool) {
			t.Helper()
			e := &exchange{ResponseWriter: conn}
			e.body = newTimedBody(conn, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("more")), pace)
			e.body.received = tc.received
			conn.WriteDeadline = time.Time{}
			if own := time.Now().Add(time.Hour); set {
				if err := http.NewResponseController(e).SetWriteDeadline(own); err != nil || !conn.WriteDeadline.Equal(own) {
					t.Fatalf("%v; the deadline is %s", err, conn.WriteDeadline)
				}
			}
			before := conn.WriteDeadline
			if _, err := e.body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if want := tc.extended && !set; conn.WriteDeadline.Equal(before) == want || want && conn.WriteDeadline.Sub(conn.ReadDeadline) != time.Minute {
				t.Errorf("%s, set by the handler %t: the response ends %s after the body", name, set, conn.WriteDeadline.Sub(conn.ReadDeadline))
			}
		}
		read(false)
		read(true)
	}
}
