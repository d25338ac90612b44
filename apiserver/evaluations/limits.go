package evaluations

import (
	"context"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/serving"
)

// Evaluations in progress on a replica: those of a person, of a caller such as a key, of an account, and all.
const (
	maxOfOwner   = 2
	maxOfCaller  = 4
	maxOfAccount = 4
	maxRunning   = 8
)

const (
	// parallel is the number of questions or messages of an evaluation at a time.
	parallel = 4
	// maxDuration is that of an evaluation.
	maxDuration = 2 * time.Hour
	// defaultTokens is the number of tokens of an evaluation, of requests and answers together, if the request has none.
	defaultTokens = 5_000_000
	// retryAfter is when a client may try again.
	retryAfter = 30 * time.Second
)

// limits are those of evaluations in progress.
type limits struct {
	owners, callers, accounts *serving.Shares[string]
	all                       *serving.Shares[struct{}]
}

func newLimits() *limits {
	return &limits{
		serving.NewShares[string](maxOfOwner), serving.NewShares[string](maxOfCaller), serving.NewShares[string](maxOfAccount), serving.NewShares[struct{}](maxRunning),
	}
}

// acquire takes places for an evaluation on behalf of an owner. They are released once.
func (l *limits) acquire(ctx context.Context, owner string) (release func(), err error) {
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
		{l.owners.Acquire(account + "/" + owner), maxOfOwner, "of the user"},
		{l.callers.Acquire(account + "/" + scope.Caller()), maxOfCaller, "of the caller"},
		{l.accounts.Acquire(account), maxOfAccount, "of the account"},
		{l.all.Acquire(struct{}{}), maxRunning, "of all accounts"},
	} {
		if place.leave != nil {
			held = append(held, place.leave)
			continue
		}
		if err == nil {
			err = rest.NewProblem(http.StatusTooManyRequests, "%d evaluations %s are in progress; allowed: %d at a time", place.most, place.of, place.most).Later(retryAfter)
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}
