package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/engine"
)

func slice(port string, number int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{Endpoints: endpoints, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}}
}

func at(address string, ready, terminating *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address, "10.9.9.9"}, Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: terminating}}
}

func TestAddresses(t *testing.T) {
	yes, no := ptr.To(true), ptr.To(false)
	names := slice("http", 4000, at("pod.example.com", yes, nil))
	names.AddressType = discoveryv1.AddressTypeFQDN
	got := Addresses([]*discoveryv1.EndpointSlice{
		slice("http", 4000, at("10.0.0.2", yes, no), at("10.0.0.1", nil, nil), at("10.0.0.3", no, nil), at("10.0.0.4", yes, yes)),
		slice("http", 4000, at("10.0.0.2", yes, no)), // moves from one slice to another
		slice("http", 4001, at("fd00::1", yes, nil)),
		slice("sql", 15432, at("10.0.0.5", yes, nil)),
		slice("http", 4000, discoveryv1.Endpoint{}),
		names, {},
	}, "http")
	if diff := cmp.Diff([]string{"10.0.0.1:4000", "10.0.0.2:4000", "[fd00::1]:4001"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func testPool(wait time.Duration, maxWaiting int, addresses ...string) *Pool {
	p := newPool(Limits{Wait: wait, MaxWaiting: maxWaiting}, NewMetrics(prometheus.NewRegistry()))
	p.set(addresses)
	return p
}

// TestPrune: a pool of an environment that does not exist is removed once it has no endpoints; others remain the same.
func TestPrune(t *testing.T) {
	p := NewPools(Limits{}, NewMetrics(prometheus.NewRegistry()))
	gone := types.NamespacedName{Namespace: "acme", Name: engine.APIName("gone")}
	p.Set(gone, []*discoveryv1.EndpointSlice{slice("http", 4000, at("10.0.0.1", nil, nil))})
	asleep := p.Get("acme", "asleep", "http")
	existing := slices.Values([]types.NamespacedName{{Namespace: "acme", Name: "asleep"}})
	p.Prune(existing)
	if !p.Get("acme", "gone", "http").Ready() {
		t.Error("a pool with an endpoint is removed")
	}
	p.Set(gone, nil)
	p.Prune(existing)
	if len(p.pools) != 1 || p.Get("acme", "asleep", "http") != asleep {
		t.Errorf("%d pools remain, want that of the environment that exists", len(p.pools))
	}
}

func acquire(t *testing.T, p *Pool, tried ...*Endpoint) *Endpoint {
	t.Helper()
	e, err := p.Acquire(t.Context(), tried)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAcquireBalances(t *testing.T) {
	p := testPool(0, 0, "a", "b", "c")
	count := map[string]int{}
	for range 30 { // sequential requests: round-robin
		e := acquire(t, p)
		count[e.Address]++
		e.Release()
	}
	if diff := cmp.Diff(map[string]int{"a": 10, "b": 10, "c": 10}, count); diff != "" {
		t.Errorf("round-robin (-want +got):\n%s", diff)
	}
	busy := acquire(t, p)
	for range 20 { // an endpoint that hangs receives few other requests
		one, two := acquire(t, p), acquire(t, p)
		if one == busy || two == busy {
			t.Error("the busy endpoint is picked")
		}
		one.Release()
		two.Release()
	}
	first := acquire(t, p)
	if second := acquire(t, p, first, busy); second == first || second == busy {
		t.Error("a tried endpoint is picked although another is available")
	}
	p.set([]string{busy.Address})
	if again := acquire(t, p, busy); again != busy {
		t.Error("the state of a remaining endpoint is lost")
	}
}

func TestAcquireBacksOff(t *testing.T) {
	p := testPool(5*time.Second, 10, "a", "b")
	a := acquire(t, p)
	for range 100 {
		a.Failed()
	}
	a.Release()
	if a.failures != 1 {
		t.Errorf("100 concurrent failures count %d times", a.failures)
	}
	for range 10 {
		e := acquire(t, p)
		if e == a {
			t.Fatal("an endpoint in backoff is picked")
		}
		e.Release()
	}
	p.set([]string{a.Address})
	start := time.Now()
	if e := acquire(t, p); e != a || time.Since(start) < minBackoff/2 {
		t.Errorf("the last endpoint is tried again after %s", time.Since(start))
	}
	a.Failed()
	if pause := time.Until(a.backoffUntil); pause < minBackoff {
		t.Errorf("the second backoff is %s", pause)
	}
	a.Reached()
	if acquire(t, p, a) != a {
		t.Error("an endpoint that has answered is still in backoff")
	}
}

func TestAcquireWaits(t *testing.T) {
	p := testPool(200*time.Millisecond, 2)
	var all sync.WaitGroup
	results := make(chan error, 3)
	for range 3 {
		all.Go(func() { _, err := p.Acquire(context.Background(), nil); results <- err })
	}
	all.Wait()
	count := map[error]int{}
	for range 3 {
		count[<-results]++
	}
	if count[ErrNoEndpoint] != 2 || count[ErrTooManyWaiting] != 1 {
		t.Errorf("%v", count)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := p.Acquire(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { p.set([]string{"a"}) })
	if e := acquire(t, p); e.Address != "a" || p.waiting != 0 {
		t.Errorf("%s, %d wait", e.Address, p.waiting)
	}
}

func TestReplay(t *testing.T) {
	r := &replay{source: iotest.OneByteReader(strings.NewReader("hello"))}
	first, _ := r.newReader()
	head := make([]byte, 2)
	if _, err := io.ReadFull(first, head); err != nil {
		t.Fatal(err)
	}
	second, ok := r.newReader()
	if !ok {
		t.Fatal("not replayable")
	}
	if _, err := first.Read(head); !errors.Is(err, errSuperseded) {
		t.Errorf("the first pass is not superseded: %v", err)
	}
	for range 2 { // also after the end was read
		if all, err := io.ReadAll(second); string(all) != "hello" || err != nil {
			t.Errorf("%q, %v", all, err)
		}
		second, _ = r.newReader()
	}
	if r.failure() != nil {
		t.Error("io.EOF is a failure")
	}

	large := &replay{source: strings.NewReader(strings.Repeat("x", maxReplay+1))}
	pass, _ := large.newReader()
	if n, err := io.Copy(io.Discard, pass); n != maxReplay+1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, ok := large.newReader(); ok || !large.truncated() {
		t.Error("more than maxReplay is kept")
	}

	broken := &replay{source: iotest.ErrReader(io.ErrUnexpectedEOF)}
	pass, _ = broken.newReader()
	_, _ = io.ReadAll(pass)
	if !errors.Is(broken.failure(), io.ErrUnexpectedEOF) {
		t.Errorf("%v", broken.failure())
	}
}

// TestShortBodiesAreReadAhead: a pod receives a short body in the same packet as the headers,
// unless the client expects 100 Continue before it sends the body.
func TestShortBodiesAreReadAhead(t *testing.T) {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		_, _ = w.Write(all)
	}))
	defer pod.Close()
	for name, tc := range map[string]struct {
		length int
		expect string
		writes int64
	}{
		"short":     {maxReadAhead / 2, "", 1},
		"long":      {maxReadAhead + 1, "", 2},
		"expecting": {maxReadAhead / 2, "100-continue", 2},
	} {
		t.Run(name, func(t *testing.T) {
			transport := NewTransport(NewMetrics(prometheus.NewRegistry()))
			defer transport.CloseIdleConnections()
			var used *countedConn
			dial := transport.base.DialContext
			transport.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				used, _ = conn.(*countedConn)
				return conn, err
			}
			call := &Call{Pool: testPool(0, 0, pod.Listener.Addr().String())}
			sent := strings.Repeat("x", tc.length)
			// Of a type that is unknown to net/http, like the body of a client.
			body := io.MultiReader(strings.NewReader(sent))
			r, err := http.NewRequestWithContext(WithCall(t.Context(), call), http.MethodPost, "http://pod/", body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = int64(tc.length)
			if tc.expect != "" {
				r.Header.Set("Expect", tc.expect)
			}
			response, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); string(got) != sent || err != nil {
				t.Errorf("%d bytes arrive, %v", len(got), err)
			}
			if got := used.writes.Load(); got != tc.writes {
				t.Errorf("%d writes, want %d", got, tc.writes)
			}
		})
	}
}

func BenchmarkAcquire(b *testing.B) {
	p := testPool(0, 0, "a", "b", "c")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e, err := p.Acquire(context.Background(), nil)
			if err != nil {
				b.Fatal(err)
			}
			e.Release()
		}
	})
}
