package evaluations

import (
	"time"

	"github.com/quoin-dev/quoin/apiserver/agents"
)

const (
	// maxOfOwner and maxOfAccount are the numbers of evaluations in progress on a replica of a person and of an account.
	maxOfOwner, maxOfAccount = 2, 4
	// parallel is the number of questions or messages of an evaluation at a time.
	parallel = 4
	// maxDuration is that of an evaluation.
	maxDuration = 2 * time.Hour
	// defaultTokens is the number of tokens of an evaluation, of requests and answers together, if the request has none.
	defaultTokens = 5_000_000
	// retryAfter is when a client may try again.
	retryAfter = 30 * time.Second
)

// newPlaces returns the limits of evaluations in progress.
func newPlaces() *agents.Places {
	return agents.NewPlaces("evaluations", agents.PlacesOf{Person: maxOfOwner, Caller: 4, Account: maxOfAccount, All: 8}, retryAfter)
}
