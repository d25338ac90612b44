package fairsemaphore

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// TestTurnsBetweenAccounts: an account with much waiting work delays another one by one turn.
func TestTurnsBetweenAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		first, err := s.Begin(t.Context(), "busy")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var order []string
		for _, account := range []string{"busy", "busy", "busy", "other", "busy", "other", "third"} {
			all.Go(func() {
				turn, err := s.Begin(t.Context(), account)
				if err != nil {
					t.Error(err)
				}
				order = append(order, account)
				turn.End()
			})
			synctest.Wait()
		}
		first.End()
		all.Wait()
		if want := []string{"busy", "other", "third", "busy", "other", "busy", "busy"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
		if s.free != 1 || s.isContended() {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

// TestAside: other work runs while work waits for others, also if it does so within such a wait.
func TestAside(t *testing.T) {
	s := New(1)
	long, err := s.Begin(t.Context(), "busy")
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	err = long.Aside(func() error {
		return long.Aside(func() error {
			short, err := s.Begin(t.Context(), "other")
			if err != nil {
				t.Error(err)
			}
			short.End()
			return failed
		})
	})
	if !errors.Is(err, failed) || !long.held || s.free != 0 {
		t.Errorf("%v, held %t, %d places are free", err, long.held, s.free)
	}
	long.End()
	if err := long.Aside(func() error { return nil }); err != nil || long.held || s.free != 1 {
		t.Errorf("afterwards: %v, held %t, %d places are free", err, long.held, s.free)
	}
}

func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		long, _ := s.Begin(t.Context(), "busy")
		if err := long.Yield(); err != nil || !long.held {
			t.Errorf("nothing else waits: %v", err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			short, err := s.Begin(t.Context(), "other")
			if err != nil {
				t.Error(err)
			}
			short.End()
		}()
		synctest.Wait()
		if err := long.Yield(); err != nil || !long.held {
			t.Errorf("after other work: %v", err)
		}
		<-done
		long.End()
		long.End()
		if s.free != 1 {
			t.Errorf("%d are free", s.free)
		}
	})
}

func TestShortWorkNeedsNoPlace(t *testing.T) {
	s := New(1)
	long, err := s.BeginIf(t.Context(), true, "busy")
	if err != nil {
		t.Fatal(err)
	}
	defer long.End()
	short, err := s.BeginIf(t.Context(), false, "other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := short.Writer(io.Discard).Write([]byte("text")); err != nil || short.Yield() != nil {
		t.Error(err)
	}
	if short.End(); s.free != 0 {
		t.Error("short work has ended the turn of long work")
	}
}

func TestCanceledWorkTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		first, _ := s.Begin(t.Context(), "busy")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				turn, err := s.Begin(ctx, "other")
				if !errors.Is(err, context.Canceled) {
					t.Errorf("canceled: %v", err)
				}
				turn.End()
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if err := first.Yield(); err != nil {
			t.Error(err)
		}
		first.End()
		if s.free != 1 || s.isContended() {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

// TestReader: work runs between its reads and writes only.
func TestReaderAndWriter(t *testing.T) {
	s := New(1)
	held := func() bool { return s.free == 0 }
	in, end := s.Reader(t.Context(), "busy", readerFunc(func(p []byte) (int, error) {
		if held() {
			t.Error("the place is held during a read")
		}
		return copy(p, "text"), io.EOF
	}))
	if held() {
		t.Error("the place is held before the first read")
	}
	if text, err := io.ReadAll(in); string(text) != "text" || err != nil || !held() {
		t.Errorf("read %q, %v; held: %t", text, err, held())
	}
	end()
	turn, err := s.Begin(t.Context(), "busy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turn.Writer(writerFunc(func(p []byte) (int, error) {
		if held() {
			t.Error("the place is held during a write")
		}
		return len(p), nil
	})).Write([]byte("text")); err != nil || !held() {
		t.Errorf("write: %v; held: %t", err, held())
	}
	turn.End()
	if held() {
		t.Error("the place is held at the end")
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestIterateYields: other work runs after a step of the elements.
func TestIterateYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		long, _ := s.Begin(t.Context(), "busy")
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			short, err := s.Begin(t.Context(), "other")
			if err != nil {
				t.Error(err)
			}
			short.End()
		}()
		synctest.Wait()
		for n := range Iterate(long, 10, slices.Values(make([]int, 20))) {
			_ = n
		}
		select {
		case <-ran:
		default:
			t.Error("the other work has not run")
		}
		long.End()
	})
}
