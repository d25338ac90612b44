package agents

import (
	"context"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/serving"
)

// Places limit what is in progress on a replica, such as answers. Create them with NewPlaces.
type Places struct {
	of         string
	retryAfter time.Duration
	most       PlacesOf

	people, callers, accounts *serving.Shares[string]
	all                       *serving.Shares[struct{}]
}

// PlacesOf are the numbers of places of a person, of a caller such as a key, of an account, and of all accounts.
type PlacesOf struct{ Person, Caller, Account, All int }

// NewPlaces returns places for what messages call of, in the plural. Clients may try again after some time.
func NewPlaces(of string, most PlacesOf, retryAfter time.Duration) *Places {
	return &Places{
		of: of, retryAfter: retryAfter, most: most,
		people: serving.NewShares[string](most.Person), callers: serving.NewShares[string](most.Caller),
		accounts: serving.NewShares[string](most.Account), all: serving.NewShares[struct{}](most.All),
	}
}

// Acquire takes places on behalf of the person who asks. The caller must call release once.
func (p *Places) Acquire(ctx context.Context, asker *Asker) (release func(), err error) {
	scope := rest.ScopeFrom(ctx)
	account := string(scope.Account.UID)
	var held []func()
	release = func() {
		for _, leave := range held {
			leave()
		}
	}
	for _, place := range []struct {
		acquire func() func()
		most    int
		of      string
	}{
		{func() func() { return p.people.Acquire(account + "/" + asker.Owner) }, p.most.Person, "of the user"},
		{func() func() { return p.callers.Acquire(account + "/" + scope.Caller()) }, p.most.Caller, "of the caller"},
		{func() func() { return p.accounts.Acquire(account) }, p.most.Account, "of the account"},
		{func() func() { return p.all.Acquire(struct{}{}) }, p.most.All, "of all accounts"},
	} {
		leave := place.acquire()
		if leave == nil {
			release()
			return nil, rest.NewProblem(http.StatusTooManyRequests, "%d %s %s are in progress; allowed: %d at a time", place.most, p.of, place.of, place.most).Later(p.retryAfter)
		}
		held = append(held, leave)
	}
	return release, nil
}
