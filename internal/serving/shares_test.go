package serving

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestShares(t *testing.T) {
	shares := NewShares[string](2)
	first, second := shares.Acquire("a"), shares.Acquire("a")
	if first == nil || second == nil || shares.Acquire("a") != nil {
		t.Error("a key has not two places")
	}
	if other := shares.Acquire("b"); other == nil {
		t.Error("another key has no place")
	} else {
		other()
	}
	first()
	if again := shares.Acquire("a"); again == nil {
		t.Error("a released place is not free")
	} else {
		again()
	}
	second()
	if len(shares.held) != 0 {
		t.Errorf("%d keys without requests are kept", len(shares.held))
	}
}

// Unauthenticated requests of a client address have a limit of their own, which ends with Authenticated.
func TestUnauthenticatedLimit(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	handler := Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/authenticated" {
			Authenticated(r, "acme")
		}
		entered <- struct{}{}
		<-leave
	}), WrapOptions{MaxUnauthenticated: 1, Log: slog.New(slog.DiscardHandler)})
	serve := func(path, client string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = client
		handler.ServeHTTP(w, r)
		return w
	}
	answers := make(chan *httptest.ResponseRecorder)
	for _, request := range [][2]string{
		{"/authenticated", "192.0.2.1:1"}, {"/", "192.0.2.1:2"}, {"/", "192.0.2.2:1"}, {"/", "[2001:db8::1]:1"}, {"/", "[2001:db8:0:1::1]:1"},
	} {
		go func() { answers <- serve(request[0], request[1]) }()
		<-entered
	}
	for _, client := range []string{"192.0.2.1:3", "[2001:db8::2]:1"} {
		w := serve("/", client)
		wantError(t, w.Result(), http.StatusTooManyRequests, "unauthenticated requests")
		if w.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
		}
	}
	for range 5 {
		leave <- struct{}{}
		if w := <-answers; w.Code != http.StatusOK {
			t.Errorf("a request within the limits: %d", w.Code)
		}
	}
	go func() { answers <- serve("/", "192.0.2.1:4") }()
	<-entered
	leave <- struct{}{}
	if w := <-answers; w.Code != http.StatusOK {
		t.Errorf("after the others: %d", w.Code)
	}
}

// Outside of Wrap there is no limit.
func TestAuthenticatedOutsideOfWrap(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	Authenticated(r, "acme")
	if network := ClientNetwork(r.Context()); network.IsValid() {
		t.Errorf("network %s", network)
	}
}
