package environment

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	// startGracePeriod is how long the cluster may take to create pods with the new settings
	// before the status reports it: when many environments roll out at once, their workloads
	// wait in the queues of the cluster.
	startGracePeriod = time.Minute
	// readyGracePeriod is how long the pods may then take to become ready, in addition to the
	// time that the cluster took to create them.
	readyGracePeriod = 10 * time.Second
	// reportInterval is the minimum time between two reports of the progress of a rollout.
	reportInterval = 15 * time.Second
	// rejectedInterval is how often an object that Kubernetes has rejected is applied again.
	rejectedInterval = time.Minute
	// deletionInterval is how often it is checked whether the secrets of an earlier environment have been deleted: Secrets
	// are not watched.
	deletionInterval = time.Second
)

// rolloutStates holds the state of environments whose rollout is not complete. It is
// an optimization: a restart loses it.
type rolloutStates struct {
	mu     sync.Mutex
	states map[client.ObjectKey]rolloutState
}

type rolloutState struct {
	// uid is that of the environment, not of an earlier one of the same name.
	uid            types.UID
	secretsCreated bool
	// generation is the one that the rest refers to; since is when it was first found incomplete.
	generation int64
	since      time.Time
	// started is when pods with the new settings were first observed, reported the time of the
	// last report; zero before.
	started, reported time.Time
	// store is the progress of the store's pods while they are not complete, storeSince when it was first observed.
	store      string
	storeSince time.Time
}

// update changes the state of an environment.
func (r *rolloutStates) update(env *v1alpha1.Environment, change func(*rolloutState)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.states == nil {
		r.states = map[client.ObjectKey]rolloutState{}
	}
	key := client.ObjectKeyFromObject(env)
	state := r.states[key]
	if state.uid != env.UID {
		state = rolloutState{uid: env.UID}
	}
	change(&state)
	r.states[key] = state
}

// reportDelay returns the time until the progress of the environment is reported; zero when it
// is due now.
func (r *rolloutStates) reportDelay(env *v1alpha1.Environment, started bool, now time.Time) time.Duration {
	var delay time.Duration
	r.update(env, func(state *rolloutState) {
		if state.generation != env.Generation {
			*state = rolloutState{uid: state.uid, secretsCreated: state.secretsCreated, generation: env.Generation, since: now}
		}
		if started && state.started.IsZero() {
			state.started = now
		}
		due := state.since.Add(startGracePeriod)
		if started {
			due = state.started.Add(readyGracePeriod + state.started.Sub(state.since))
		}
		// A rollout is reported at intervals. Problems of an environment whose rollout was
		// complete are reported until they are solved.
		isRollout := env.Status.ObservedGeneration != env.Generation
		if next := state.reported.Add(reportInterval); isRollout && next.After(due) {
			due = next
		}
		if delay = due.Sub(now); delay <= 0 {
			state.reported = now
		}
	})
	return max(delay, 0)
}

// storeOverdue reports whether the pods of the store have made no progress for the deadline. Kubernetes has such a deadline for
// Deployments only. progress is empty when they are complete.
func (r *rolloutStates) storeOverdue(env *v1alpha1.Environment, progress string, deadline time.Duration, now time.Time) bool {
	overdue := false
	r.update(env, func(state *rolloutState) {
		if state.store != progress {
			since := now
			if state.store == "" && isOverdue(env) {
				since = time.Time{} // the status of before a restart
			}
			state.store, state.storeSince = progress, since
		}
		overdue = progress != "" && now.Sub(state.storeSince) >= deadline
	})
	return overdue
}

// isOverdue reports whether the status of an environment shows that its current generation has exceeded the deadline.
func isOverdue(env *v1alpha1.Environment) bool {
	c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionStalled)
	return c != nil && c.Reason == v1alpha1.ReasonDeadlineExceeded && c.ObservedGeneration == env.Generation
}

// forget removes the state of an environment.
func (r *rolloutStates) forget(env client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, env)
}
