package chat

import (
	"context"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/serving"
)

// Runs in progress on a replica: those of a person, of a caller such as a key, of an account, and all.
const (
	maxOfAsker   = 8
	maxOfCaller  = 1000
	maxOfAccount = 1000
	maxRuns      = 2000
)

// retryAfter is when a client may try again.
const retryAfter = 5 * time.Second

// limits are those of runs in progress.
type limits struct {
	askers, callers, accounts *serving.Shares[string]
	all                       *serving.Shares[struct{}]
}

func newLimits() *limits {
	return &limits{
		serving.NewShares[string](maxOfAsker), serving.NewShares[string](maxOfCaller), serving.NewShares[string](maxOfAccount), serving.NewShares[struct{}](maxRuns),
	}
}

// acquire takes places for a run. They are released once.
func (l *limits) acquire(ctx context.Context, asker *agents.Asker) (release func(), err error) {
	scope := rest.ScopeFrom(ctx)
	account := string(scope.Account.UID)
	var held []func()
	release = func() {
		for _, leave := range held {
			leave()
		}
	}
	for _, place := range []struct {
		leave func()
		most  int
		of    string
	}{
		{l.askers.Acquire(account + "/" + asker.Owner), maxOfAsker, "of the user"},
		{l.callers.Acquire(account + "/" + scope.Caller()), maxOfCaller, "of the caller"},
		{l.accounts.Acquire(account), maxOfAccount, "of the account"},
		{l.all.Acquire(struct{}{}), maxRuns, "of all accounts"},
	} {
		if place.leave != nil {
			held = append(held, place.leave)
			continue
		}
		if err == nil {
			err = rest.NewProblem(http.StatusTooManyRequests, "%d answers %s are in progress; allowed: %d at a time", place.most, place.of, place.most).Later(retryAfter)
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}
