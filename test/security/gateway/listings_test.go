package gateway_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// TestListingsLeaveAProcessor: a tenant whose pods have large metadata requests the listings that the gateway derives from
// them, as many as its limits allow, so that the gateway computes without pause. Other tenants rely on queries, which need
// no place among the listings, and on listings of their own in turns.
func TestListingsLeaveAProcessor(t *testing.T) {
	w := newWorld(t, nil)
	w.deploy(victim, w.pod(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/v1/meta") {
			_, _ = io.WriteString(rw, `{"cubes":[{"name":"orders"}]}`)
		}
	}), w.listenAsPod().Addr())
	var listings []*fairsemaphore.Turn
	for range max(1, runtime.GOMAXPROCS(0)-1) { // those of the attacker in progress
		listing, err := fairsemaphore.Processors.Begin(t.Context(), "attacker")
		if err != nil {
			t.Fatal(err)
		}
		defer listing.End()
		listings = append(listings, listing)
	}
	done := make(chan string, 1)
	go func() {
		_, body := w.get(w.client(customer), victim, "/v1/entities")
		done <- body
	}()
	w.eventually("the listing of the victim to wait", func() bool {
		return len(done) > 0 || fairsemaphore.Processors.Waiting(w.account) > 0
	})
	c := w.client(customer)
	for range 20 {
		if status, body := w.get(c, victim, "/v1/load"); status != http.StatusOK {
			t.Fatalf("a query: %d %s", status, body)
		}
	}
	select {
	case body := <-done:
		t.Fatalf("a listing has been derived while all places are taken: %s", body)
	default:
	}
	for _, listing := range listings {
		if err := listing.Yield(); err != nil { // another step, after the listing of the victim
			t.Error(err)
		}
	}
	if body := <-done; !strings.Contains(body, `"orders"`) {
		t.Errorf("the listing of the victim: %s", body)
	}
}
