package gateway

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// deadlines records the read deadlines of a connection.
type deadlines struct {
	http.ResponseWriter
	last time.Time
	set  int
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.last = t
	d.set++
	return nil
}

// TestSlowBodies: the deadline of a body depends on what was received so far, and not on when.
func TestSlowBodies(t *testing.T) {
	for name, tc := range map[string]struct {
		waited   time.Duration
		received int64
		min, max time.Duration
	}{
		"the first octet":         {0, 0, 19 * time.Second, 20 * time.Second},
		"octet by octet":          {19 * time.Second, 19, 0, 2 * time.Second},
		"too slow":                {21 * time.Second, 21, -time.Hour, 0},
		"slow":                    {60 * time.Second, 120 << 10, 79 * time.Second, 80 * time.Second},
		"fast":                    {time.Second, 1 << 20, stallTimeout - time.Second, stallTimeout},
		"fast, after a long time": {time.Hour, 64 << 20, stallTimeout - time.Second, stallTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &deadlines{ResponseWriter: httptest.NewRecorder()}
			d := &deadlineBody{ReadCloser: io.NopCloser(strings.NewReader("more")), control: http.NewResponseController(conn), waited: tc.waited, received: tc.received}
			if _, err := d.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if left := time.Until(conn.last); left < tc.min || left > tc.max {
				t.Errorf("the deadline is in %s, want %s to %s", left, tc.min, tc.max)
			}
			if _, err := d.Read(make([]byte, 1)); err != nil || conn.set != 1 {
				t.Errorf("%v, the deadline was set %d times", err, conn.set)
			}
			if _, err := io.Copy(io.Discard, d); err != nil || !conn.last.IsZero() {
				t.Errorf("%v; after the end of the body, the deadline is %s", err, conn.last)
			}
		})
	}
	failing := &deadlineBody{ReadCloser: io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded)), control: http.NewResponseController(httptest.NewRecorder())}
	if _, err := failing.Read(make([]byte, 1)); !errors.Is(err, errSlowBody) {
		t.Errorf("after the deadline: %v", err)
	}
}
