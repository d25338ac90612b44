package serving

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// refusing returns a handler that answers with the status in the path, for an authenticated caller if it says so, and a
// function that sends it a request of a client and returns the status and how long it took.
func refusing() func(ctx context.Context, client, path string) (*httptest.ResponseRecorder, time.Duration) {
	statuses := map[string]int{"/401": 401, "/404": 404, "/429": 429, "/200": 200}
	handler := Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("authenticated") {
			Authenticated(r, "acme")
		}
		w.WriteHeader(statuses[r.URL.Path])
	}), WrapOptions{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	return func(ctx context.Context, client, path string) (*httptest.ResponseRecorder, time.Duration) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		r.RemoteAddr = client + ":1234"
		w, start := httptest.NewRecorder(), time.Now()
		handler.ServeHTTP(w, r)
		return w, time.Since(start)
	}
}

// TestRefusedRequestsArePaced: after a burst of refused requests, further ones of the client take a second. Its other
// requests, and those of other clients, are answered at once.
func TestRefusedRequestsArePaced(t *testing.T) {
	for _, path := range []string{"/401", "/404", "/429", "/429?authenticated"} {
		synctest.Test(t, func(t *testing.T) {
			send := refusing()
			for i := range refusalBurst {
				if _, took := send(t.Context(), "192.0.2.1", path); took != 0 {
					t.Fatalf("%s: request %d took %s", path, i, took)
				}
			}
			for client, want := range map[string]time.Duration{"192.0.2.1": refusalDelay, "192.0.2.2": 0} {
				if _, took := send(t.Context(), client, path); took != want {
					t.Errorf("%s: a further request of %s took %s, want %s", path, client, took, want)
				}
			}
			for _, path := range []string{"/200", "/404?authenticated"} {
				if _, took := send(t.Context(), "192.0.2.1", path); took != 0 {
					t.Errorf("%s, which is not refused, took %s", path, took)
				}
			}
		})
	}
}

// TestDelayedRefusalsAreBounded: while many requests of a client are delayed, its further requests are refused and their
// connections closed. A client that disconnects is not waited for.
func TestDelayedRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send := refusing()
		for range refusalBurst {
			send(t.Context(), "192.0.2.1", "/401")
		}
		ctx, disconnect := context.WithCancel(t.Context())
		var delayed sync.WaitGroup
		for range maxDelayed {
			delayed.Go(func() {
				if _, took := send(ctx, "192.0.2.1", "/401"); took != 0 {
					t.Errorf("a client that had disconnected was waited for: %s", took)
				}
			})
		}
		synctest.Wait()
		response, took := send(t.Context(), "192.0.2.1", "/200")
		if response.Code != http.StatusTooManyRequests || response.Header().Get("Connection") != "close" || took != 0 {
			t.Errorf("a further request: %d, Connection: %q, after %s", response.Code, response.Header().Get("Connection"), took)
		}
		if response, _ := send(t.Context(), "192.0.2.2", "/200"); response.Code != http.StatusOK {
			t.Errorf("another client: %d", response.Code)
		}
		disconnect()
		delayed.Wait()
		if response, _ := send(t.Context(), "192.0.2.1", "/200"); response.Code != http.StatusOK {
			t.Errorf("afterwards: %d", response.Code)
		}
	})
}
