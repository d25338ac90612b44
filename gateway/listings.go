package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Limits of listings that are derived from the metadata of pods: each needs memory of the gateway
// that the response of a pod determines, see dataapi.Entities.
const (
	maxListings           = 8
	maxListingsPerAccount = 2
	// maxListingsWaiting is how many requests of an account wait for others to complete, for
	// listingTimeout at most.
	maxListingsWaiting = 32
	// listingTimeout is how long a pod may take to send its metadata.
	listingTimeout = 15 * time.Second
)

// Reasons why a listing is not derived. The texts are shown to callers.
var (
	errTooManyListings = errors.New("too many listings of metadata are in progress: retry after the delay in Retry-After")
	errListingTimeout  = fmt.Errorf("the environment did not send its metadata within %d seconds", listingTimeout/time.Second)
)

// listings limit the listings in progress, in total and of each account, so that one account
// cannot prevent those of others.
type listings struct {
	total chan struct{}

	mu       sync.Mutex
	accounts map[string]*accountListings
}

// accountListings are the listings of an account. requests, guarded by listings, are those that
// wait or are in progress.
type accountListings struct {
	running  chan struct{}
	requests int
}

func newListings() *listings {
	return &listings{total: make(chan struct{}, maxListings), accounts: map[string]*accountListings{}}
}

// acquire waits until a listing may be derived. The caller must call done at its end.
func (l *listings) acquire(ctx context.Context, account string) (done func(), err error) {
	a := l.enter(account)
	if a == nil {
		return nil, errTooManyListings
	}
	ctx, cancel := context.WithTimeout(ctx, listingTimeout)
	defer cancel()
	select {
	case a.running <- struct{}{}:
	case <-ctx.Done():
		l.leave(account, a)
		return nil, errTooManyListings
	}
	select {
	case l.total <- struct{}{}:
	case <-ctx.Done():
		<-a.running
		l.leave(account, a)
		return nil, errTooManyListings
	}
	return func() {
		<-l.total
		<-a.running
		l.leave(account, a)
	}, nil
}

// enter counts a request of an account, or returns nil if the account has too many.
func (l *listings) enter(account string) *accountListings {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[account]
	if a == nil {
		a = &accountListings{running: make(chan struct{}, maxListingsPerAccount)}
		l.accounts[account] = a
	}
	if a.requests >= maxListingsPerAccount+maxListingsWaiting {
		return nil
	}
	a.requests++
	return a
}

func (l *listings) leave(account string, a *accountListings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.requests--; a.requests == 0 {
		delete(l.accounts, account)
	}
}
