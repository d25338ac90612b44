package chat

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/store"
)

// setDown makes the database of a replica available or not.
func (r *replica) setDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// TestDatabaseIsDown: an answer goes on while the database is not available for a short time, and all its lines are stored then.
func TestDatabaseIsDown(t *testing.T) {
	w := newWorld(t)
	r, other := w.start(0), w.start(0)
	response := r.get(t.Context(), "input", "wait", "chat", "c", "message", messageID(1))
	defer response.Body.Close()
	reading := bufio.NewReader(response.Body)
	whole := until(t, reading, "One, ")
	<-w.begun
	r.setDown(true)
	w.more <- struct{}{}
	whole += until(t, reading, `"content":"two, `) // lines with text are shown before they are stored
	r.setDown(false)
	whole += until(t, reading, stream.IDState)
	if _, again := other.text("input", "wait", "chat", "c", "message", messageID(1)); again != whole {
		t.Errorf("the replay differs:\n%s\n%s", again, whole)
	}
}

// TestMessageIsNotStored: a thread whose message could not be stored has another run, without waiting for the end of the lease.
func TestMessageIsNotStored(t *testing.T) {
	w := newWorld(t)
	r := w.start(0)
	r.mu.Lock()
	r.fails = 2 // after the begin of the run
	r.mu.Unlock()
	send := func(message int) int {
		response := r.get(t.Context(), "input", "hello", "chat", "c", "message", messageID(message))
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	if status := send(1); status != http.StatusInternalServerError {
		t.Fatalf("status %d", status)
	}
	status := http.StatusConflict
	for i := 0; i < 1000 && status == http.StatusConflict; i++ { // the run ends in the background
		status = send(2)
	}
	if status != http.StatusOK {
		t.Errorf("another message: status %d", status)
	}
}

// TestDatabaseStaysDown: an answer ends when its lines cannot be stored for a time, and not before.
func TestDatabaseStaysDown(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	var ended error
	l := newLive(nil, clk, &chat.RunLease{}, func(err error) { ended = err })
	for _, c := range []struct {
		passes time.Duration
		err    error
		ends   bool
	}{
		{0, store.ErrUnavailable, false}, {storeTimeout - 1, store.ErrUnavailable, false}, {1, nil, false}, {storeTimeout, store.ErrUnavailable, false},
		{storeTimeout, store.ErrUnavailable, true}, {0, nil, false}, {0, chat.ErrLost, true},
	} {
		clk.Step(c.passes)
		if ended = nil; c.err == nil {
			l.wrote(0)
		} else {
			l.failed(c.err)
		}
		if (ended != nil) != c.ends || c.ends && !errors.Is(ended, c.err) {
			t.Errorf("%+v: the run ends with %v", c, ended)
		}
	}
}

// TestKeepAlive: a connection on which nothing is sent has empty lines, which all readers skip.
func TestKeepAlive(t *testing.T) {
	w := newWorld(t)
	clk := clocktesting.NewFakeClock(time.Now())
	w.clock = clk
	r := w.start(0)
	done := make(chan struct{})
	var stepping sync.WaitGroup
	stepping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				clk.Step(keepAlive / 10)
				runtime.Gosched()
			}
		}
	})
	defer stepping.Wait()
	defer close(done)
	response := r.get(t.Context(), "input", "wait", "chat", "c", "message", messageID(1))
	defer response.Body.Close()
	reading := bufio.NewReader(response.Body)
	until(t, reading, "One, ")
	<-w.begun
	if line, err := reading.ReadString('\n'); err != nil || line != "\n" {
		t.Errorf("the line is %q, %v", line, err)
	}
	w.more <- struct{}{}
	until(t, reading, stream.IDState)
}
