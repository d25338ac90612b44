package serving

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/quoin-dev/quoin/internal/ratelimit"
)

// Limits of refused requests. See paceRefusals.
const (
	// refusalsPerSecond and refusalBurst are those of a client address that are answered without delay.
	refusalsPerSecond, refusalBurst = 20, 100
	// refusalDelay is the delay of further ones, and maxDelayed the number of those that wait concurrently.
	refusalDelay = time.Second
	maxDelayed   = 32
	// maxRefusedAddresses bounds the memory of the limits.
	maxRefusedAddresses = 10_000
)

// paceRefusals delays the ends of refused requests of client addresses that send many of them. A client that does
// not stop after errors would otherwise cause as many as the processors allow. Requests that are not refused are
// not delayed; while a client address has the maximum of delayed ones, its further requests are refused unread.
func paceRefusals(next http.Handler) http.Handler {
	rates := ratelimit.New[netip.Prefix](refusalsPerSecond, refusalBurst, maxRefusedAddresses)
	delayed := NewShares[netip.Prefix](maxDelayed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		network := Network(e.client)
		if delayed.IsUsed(network) {
			w.Header().Set("Connection", "close")
			WriteBusy(w, http.StatusTooManyRequests, "too many refused requests from the address of the client")
			return
		}
		next.ServeHTTP(w, r)
		if e.isRefused() && network.IsValid() && rates.Take(network, time.Now()) != 0 {
			delayRefusal(r.Context(), delayed, network)
		}
	})
}

// delayRefusal delays the end of a response, unless many to the network are delayed.
func delayRefusal(ctx context.Context, delayed *Shares[netip.Prefix], network netip.Prefix) {
	release := delayed.Acquire(network)
	if release == nil {
		return
	}
	defer release()
	select {
	case <-ctx.Done():
	case <-time.After(refusalDelay):
	}
}

// isRefused reports whether the response refuses the request, for a reason that costs the server little to find:
// limits; and without authentication, that and what does not exist.
func (e *exchange) isRefused() bool {
	switch e.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout:
		return !e.isAuthenticated.Load()
	}
	return false
}
