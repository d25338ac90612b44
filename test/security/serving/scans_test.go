package serving_test

import (
	"net/http"
	"net/url"
	"runtime"
	"testing"

	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// TestScansLeaveAProcessor: a tenant with a large directory sends filters that no index answers, and lists of large pages,
// as many as its limits allow, so that the server computes without pause. Other tenants rely on short requests, which need
// no place among the scans, and on scans of their own in turns.
func TestScansLeaveAProcessor(t *testing.T) {
	var scans []*fairsemaphore.Turn
	for range max(1, runtime.GOMAXPROCS(0)-1) { // those of the attacker in progress
		scan, err := fairsemaphore.Processors.Begin(t.Context(), "mallory")
		if err != nil {
			t.Fatal(err)
		}
		defer scan.End()
		scans = append(scans, scan)
	}
	client := from(t, 1)
	users := func(filter string) string { return "/api/scim/v2/Users?filter=" + url.QueryEscape(filter) }
	done := make(chan int, 1)
	go func() {
		done <- get(t, from(t, 9), victim, users(`displayName co "a"`), keys["victim-1"]).Status
	}()
	for range 20 {
		for _, path := range []string{"/api/v1/deployments", users(`id eq "7"`)} {
			if a := get(t, client, other, path, keys["other-1"]); a.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", path, a.Status, a.Body)
			}
		}
	}
	select {
	case status := <-done:
		t.Errorf("a scan has been answered with %d while all places are taken", status)
	default:
	}
	for _, scan := range scans {
		if err := scan.Yield(); err != nil { // another step, after the scan of the victim
			t.Error(err)
		}
	}
	if status := <-done; status != http.StatusOK {
		t.Errorf("the scan of the victim: %d", status)
	}
}
