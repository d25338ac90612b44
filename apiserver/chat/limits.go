package chat

import (
	"time"

	"github.com/quoin-dev/quoin/apiserver/agents"
)

// maxOfAsker is the number of runs of a person in progress on a replica.
const maxOfAsker = 8

// retryAfter is when a client may try again.
const retryAfter = 5 * time.Second

// newPlaces returns the limits of runs in progress.
func newPlaces() *agents.Places {
	return agents.NewPlaces("answers", agents.PlacesOf{Person: maxOfAsker, Caller: 1000, Account: 1000, All: 2000}, retryAfter)
}
