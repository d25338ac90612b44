package chat

import (
	"time"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/processors"
)

// maxOfAsker is the number of runs of a person in progress on a replica.
const maxOfAsker = 8

// retryAfter is when a client may try again.
const retryAfter = 5 * time.Second

// newPlaces returns the limits of runs in progress.
func newPlaces() *agents.Places {
	return agents.NewPlaces("answers", agents.PlacesOf{Person: maxOfAsker, Caller: 1000, Account: 1000, All: 2000}, retryAfter)
}

// Many runs can end together, and the text of each is long: a few at a time hold theirs again.
var (
	// writers are the runs that write, of which there are at most maxWriters.
	writers    = fairsemaphore.New(maxWriters)
	maxWriters = 4 * processors.Count
	// states are the streams that make the line __state__.
	states = fairsemaphore.New(2 * processors.Count)
)
