package ids

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

// slowReader is a client whose reads of an account wait for release.
type slowReader struct {
	client.Client
	account string
	release chan struct{}
	reads   atomic.Int32
}

func (r *slowReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if key.Name == r.account {
		r.reads.Add(1)
		<-r.release
	}
	return r.Client.Get(ctx, key, obj, opts...)
}

// panicking is a client whose second read of an account panics.
type panicking struct{ *slowReader }

func (p panicking) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := p.slowReader.Get(ctx, key, obj, opts...)
	if p.reads.Load() == 2 {
		panic("second read")
	}
	return err
}

// result is what Next returned.
type result struct {
	id  int64
	err error
}

// start calls Next and returns its result later.
func start(t *testing.T, a *Allocator, account string, counter Counter) <-chan result {
	t.Helper()
	results := make(chan result, 1)
	go func() {
		r := result{err: errors.New("panicked")}
		defer func() { _ = recover(); results <- r }()
		r.id, r.err = a.Next(t.Context(), account, counter)
	}()
	return results
}

// await waits until one worker reads the ledger of an account, and others wait.
func await(t *testing.T, a *Allocator, reader *slowReader, others int) {
	t.Helper()
	for stop := time.Now().Add(time.Minute); time.Now().Before(stop); time.Sleep(time.Millisecond) {
		a.mu.Lock()
		reached := reader.reads.Load() == 1 && len(a.waiting[reader.account]) == others
		a.mu.Unlock()
		if reached {
			return
		}
	}
	t.Fatalf("no worker reads, or others than %d wait", others)
}

// TestNextOfManyWorkers: the workers that wait while the ledger is written get their numbers with one further write, and those of
// other accounts do not wait.
func TestNextOfManyWorkers(t *testing.T) {
	c, name := apitest.Direct(t)
	account(t, c, name, "branches=9007199254740991")
	_, other := apitest.Direct(t)
	account(t, c, other, "")
	slow := &slowReader{Client: c, account: name, release: make(chan struct{})}
	a := New(kube.NewClient(c, slow, "quoin-test"))

	first := start(t, a, name, Deployments)
	await(t, a, slow, 0)
	var waiting []<-chan result
	for range 20 {
		waiting = append(waiting, start(t, a, name, Deployments))
	}
	full := start(t, a, name, Branches)
	await(t, a, slow, 21)
	if id, err := a.Next(t.Context(), other, Deployments); id != 1 || err != nil {
		t.Errorf("another account gets %d, %v, want 1", id, err)
	}
	close(slow.release)

	if r := <-first; r.id != 1 || r.err != nil {
		t.Errorf("the first worker gets %d, %v, want 1", r.id, r.err)
	}
	var got, want []int64
	for i, results := range waiting {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		got, want = append(got, r.id), append(want, int64(i+2))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the others get %d, want %d", got, want)
	}
	if r := <-full; r.id != 0 || r.err == nil || !strings.Contains(r.err.Error(), "no branches number is left") {
		t.Errorf("a counter without numbers: %d, %v", r.id, r.err)
	}
	if n := slow.reads.Load(); n != 2 {
		t.Errorf("the ledger was read %d times for 22 workers, want 2", n)
	}
	if text := apitest.IssuedIDs(t, c, name); text != "branches=9007199254740991,deployments=21" {
		t.Errorf("the ledger says %q", text)
	}
	if len(a.waiting) != 0 {
		t.Errorf("%d accounts are kept although no worker waits", len(a.waiting))
	}
}

// TestKeepAll: several numbers need one write, and without one of them there is an error.
func TestKeepAll(t *testing.T) {
	c, name := apitest.Direct(t)
	account(t, c, name, "branches=9007199254740991,deployments=5")
	reader := &slowReader{Client: c, account: name, release: make(chan struct{})}
	close(reader.release)
	a := New(kube.NewClient(c, reader, "quoin-test"))
	got, err := a.KeepAll(t.Context(), name, Number{Deployments, "9"}, Number{Environments, ""}, Number{Deployments, "abc"}, Number{Environments, "1"})
	if want := []string{"9", "1", "10", "1"}; err != nil || !slices.Equal(got, want) || reader.reads.Load() != 1 {
		t.Errorf("got %q, %v, with %d reads; want %q with one", got, err, reader.reads.Load(), want)
	}
	if text := apitest.IssuedIDs(t, c, name); text != "branches=9007199254740991,deployments=10,environments=1" {
		t.Errorf("the ledger says %q", text)
	}
	if got, err := a.KeepAll(t.Context(), name, Number{Deployments, ""}, Number{Branches, ""}); got != nil || err == nil {
		t.Errorf("a counter without numbers: %q, %v", got, err)
	}
}

// TestNextFailsForAll: all workers whose numbers could not be written get the error.
func TestNextFailsForAll(t *testing.T) {
	c, name := apitest.Direct(t)
	slow := &slowReader{Client: c, account: name, release: make(chan struct{})} // the account does not exist
	a := New(kube.NewClient(c, slow, "quoin-test"))
	first := start(t, a, name, Deployments)
	await(t, a, slow, 0)
	second := start(t, a, name, Environments)
	await(t, a, slow, 1)
	close(slow.release)
	for _, results := range []<-chan result{first, second} {
		if r := <-results; r.id != 0 || r.err == nil || !strings.Contains(r.err.Error(), `read ledger of account "`+name+`"`) {
			t.Errorf("got %d, %v, want an error", r.id, r.err)
		}
	}
}

// TestNextOfAPanic: no worker gets a number from another one that panicked before it was written. The next ones do not wait for it.
func TestNextOfAPanic(t *testing.T) {
	c, name := apitest.Direct(t)
	account(t, c, name, "")
	slow := &slowReader{Client: c, account: name, release: make(chan struct{})}
	a := New(kube.NewClient(c, panicking{slow}, "quoin-test"))
	first := start(t, a, name, Deployments)
	await(t, a, slow, 0)
	waiting := []<-chan result{start(t, a, name, Deployments), start(t, a, name, Deployments)}
	await(t, a, slow, 2)
	close(slow.release)
	if r := <-first; r.id != 1 || r.err != nil {
		t.Errorf("before the panic: %d, %v, want 1", r.id, r.err)
	}
	for _, results := range waiting {
		if r := <-results; r.id != 0 || r.err == nil {
			t.Errorf("with the panic: %d, %v, want an error", r.id, r.err)
		}
	}
	if id, err := a.Next(t.Context(), name, Deployments); id != 2 || err != nil {
		t.Errorf("after the panic: %d, %v, want 2", id, err)
	}
}
