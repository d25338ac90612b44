package gateway

import (
	"context"
	"errors"
	"testing"
)

// TestListingsOfAnAccountAreLimited: an account whose pods do not send their metadata has a few listings in progress and
// a few that wait; those of other accounts are not affected.
func TestListingsOfAnAccountAreLimited(t *testing.T) {
	l := newListings()
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error)
	for range maxListingsPerAccount {
		if _, err := l.acquire(ctx, "hostile"); err != nil {
			t.Fatal(err)
		}
	}
	for range maxListingsWaiting + 5 {
		go func() {
			_, err := l.acquire(ctx, "hostile")
			results <- err
		}()
	}
	for range 5 { // the others wait
		if err := <-results; !errors.Is(err, errTooManyListings) {
			t.Error(err)
		}
	}
	done, err := l.acquire(ctx, "other")
	if err != nil {
		t.Fatal(err)
	}
	done()
	cancel()
	for range maxListingsWaiting {
		if err := <-results; !errors.Is(err, errTooManyListings) {
			t.Error(err)
		}
	}
	if len(l.total) != maxListingsPerAccount || len(l.accounts) != 1 || l.accounts["hostile"].requests != maxListingsPerAccount {
		t.Errorf("%d in progress, accounts %v", len(l.total), l.accounts)
	}
}
