package environment

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	// quietQueue is how long the cluster may take to make pods with the new settings before
	// that is worth a write: when many environments roll out at once they wait in its queues.
	quietQueue = time.Minute
	// quietProgress is how long the pods then may take to become ready. A cluster that took
	// long to make them is given as long again.
	quietProgress = 10 * time.Second
	// lookAgain is the pause before troubled pods are looked at again, and the shortest one
	// between two reports of how far a rollout is.
	lookAgain = 15 * time.Second
)

// memories are what is remembered of environments that are not finished, by UID. All of it
// may be lost: it only saves requests.
type memories struct {
	mu sync.Mutex
	of map[types.UID]memory
}

type memory struct {
	// secrets tells that the environment's secrets are made.
	secrets bool
	// generation that the rest is about, and since when it is not finished.
	generation int64
	since      time.Time
	// begun is when there was first something to see of it, told when it was last reported;
	// zero before.
	begun, told time.Time
}

// change changes what is remembered of an environment.
func (m *memories) change(env *v1alpha1.Environment, change func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.UID]memory{}
	}
	known := m.of[env.UID]
	change(&known)
	m.of[env.UID] = known
}

// pause is how long the environment's progress is still not worth a report; zero when one is
// due now.
func (m *memories) pause(env *v1alpha1.Environment, begun bool, now time.Time) time.Duration {
	var pause time.Duration
	m.change(env, func(known *memory) {
		if known.generation != env.Generation {
			*known = memory{secrets: known.secrets, generation: env.Generation, since: now}
		}
		if begun && known.begun.IsZero() {
			known.begun = now
		}
		due := known.since.Add(quietQueue)
		if begun {
			due = known.begun.Add(quietProgress + known.begun.Sub(known.since))
		}
		// Of a rollout, reports are made from time to time; what ails an environment that
		// was finished is shown until it is over.
		rollout := env.Status.ObservedGeneration != env.Generation
		if next := known.told.Add(lookAgain); rollout && next.After(due) {
			due = next
		}
		if pause = due.Sub(now); pause <= 0 {
			known.told = now
		}
	})
	return max(pause, 0)
}

func (m *memories) forget(env *v1alpha1.Environment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, env.UID)
}
