package deployment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/turns"
)

const (
	// retryInterval is the time after which a failed fetch is repeated first, if the interval of the
	// deployment is longer.
	retryInterval = time.Minute
	// startInterval is the same for a repository that Quoin keeps, while the deployment waits for it:
	// quoin apiserver may be starting.
	startInterval = 3 * time.Second
	// fetchTimeout bounds one fetch of a remote.
	fetchTimeout = 30 * time.Second
	// maxConcurrentFetches limits how many remotes are fetched at the same time. A remote that
	// hangs occupies one of these slots, never a worker of the controller.
	maxConcurrentFetches = 16
	// maxAccountFetches is the limit for the remotes of one account.
	maxAccountFetches = 4
)

// ReadRefs returns the branches of a Git repository and the name of its default branch.
// secret is the data of the Git secret; nil when there is none.
type ReadRefs func(ctx context.Context, url string, secret map[string][]byte) ([]git.Ref, string, error)

// Remotes caches the refs of the deployments' remotes and fetches them in the background at
// the interval of each deployment.
type Remotes struct {
	// RepositoryURL is the URL of quoin apiserver for the repositories that Quoin keeps; empty if there
	// are none. It must not change after the first use.
	RepositoryURL string

	live  client.Reader
	read  ReadRefs
	clock clock.PassiveClock
	wake  chan event.GenericEvent

	fetches sync.WaitGroup

	mu     sync.Mutex
	states map[client.ObjectKey]*remoteState
	// queue has the fetches that are due, by namespace, which identifies the account.
	queue *turns.Limits[string, client.ObjectKey]
}

// remoteState is the state of one remote after the last fetch.
type remoteState struct {
	source        string
	request       string
	refs          []git.Ref
	defaultBranch string
	err           error
	failures      int
	// fetched is the time of the last fetch, succeeded that of the last one without an error.
	fetched, succeeded time.Time
	// fetching is true from the time a fetch is due until it ends.
	fetching bool
	// start starts the fetch that waits in the queue, and cancel ends the one in progress; nil
	// if there is none.
	start, cancel func()
	// next is the time until the next fetch.
	next time.Duration
}

// NewRemotes returns Remotes that read secrets with live and repositories with read.
func NewRemotes(live client.Reader, read ReadRefs, clk clock.PassiveClock) *Remotes {
	return &Remotes{
		live: live, read: read, clock: clk,
		wake:   make(chan event.GenericEvent, 1024),
		states: map[client.ObjectKey]*remoteState{},
		queue:  turns.NewLimits[string, client.ObjectKey](maxConcurrentFetches, maxAccountFetches),
	}
}

// State returns the state of the deployment's remote after the last fetch. If the interval
// has passed, it starts a fetch; the deployment is reconciled when the fetch ends.
func (r *Remotes) State(ctx context.Context, d *v1alpha1.Deployment) remoteState {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(d)
	source, request := r.sourceOf(d), d.Annotations[v1alpha1.AnnotationReconcile]
	state := r.states[key]
	// A request for an immediate fetch waits for a fetch in progress instead of occupying
	// another slot: the deployment is reconciled when that one ends.
	if state == nil || state.source != source || (state.request != request && !state.fetching) {
		waiting := state != nil && state.start != nil
		state.abort()
		state = &remoteState{source: source, request: request}
		r.states[key] = state
		if waiting { // in the place of the discarded fetch
			r.prepare(ctx, d, state)
		}
	}
	interval := state.interval(r.of(d), d.Status.ObservedGeneration != d.Generation)
	age := r.clock.Since(state.fetched)
	if !state.fetching && age >= interval {
		r.prepare(ctx, d, state)
		r.queue.Add(key.Namespace, key)
		r.startWaiting()
	}
	current := *state
	next := max(interval-age, time.Second)
	if state.fetching { // its end wakes the deployment
		next = fetchTimeout
	}
	current.next = wait.Jitter(next, 0.1)
	return current
}

// Retry fetches the deployment's remote again, as if it had not been fetched.
func (r *Remotes) Retry(ctx context.Context, d *v1alpha1.Deployment) remoteState {
	r.Forget(client.ObjectKeyFromObject(d))
	return r.State(ctx, d)
}

// Wait waits until no fetch is in progress.
func (r *Remotes) Wait() { r.fetches.Wait() }

// Forget removes the state of a deployment's remote.
func (r *Remotes) Forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[key].abort()
	delete(r.states, key)
}

// abort cancels the fetch in progress of a state that is discarded.
func (s *remoteState) abort() {
	if s != nil && s.cancel != nil {
		s.cancel()
	}
}

// prepare sets how the fetch of a state starts.
func (r *Remotes) prepare(ctx context.Context, d *v1alpha1.Deployment, state *remoteState) {
	d, ctx = d.DeepCopy(), context.WithoutCancel(ctx)
	state.fetching = true
	state.start = func() {
		ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
		state.start, state.cancel = nil, cancel
		r.fetches.Go(func() {
			defer cancel()
			r.fetch(ctx, d, state)
		})
	}
}

// startWaiting starts the waiting fetches for which there are slots.
func (r *Remotes) startWaiting() {
	for key, ok := r.queue.Start(); ok; key, ok = r.queue.Start() {
		if state := r.states[key]; state != nil && state.start != nil {
			state.start()
			continue
		}
		r.queue.Done(key.Namespace) // the deployment has been deleted
	}
	fetchesWaiting.Set(float64(r.queue.Waiting()))
}

func (r *Remotes) fetch(ctx context.Context, d *v1alpha1.Deployment, state *remoteState) {
	key, start := client.ObjectKeyFromObject(d), r.clock.Now()
	refs, defaultBranch, err := r.readRemote(ctx, d)
	observeFetch(r.clock.Since(start), err)

	r.mu.Lock()
	state.fetching, state.cancel, state.fetched, state.err = false, nil, r.clock.Now(), err
	if err == nil {
		state.refs, state.defaultBranch, state.failures, state.succeeded = refs, defaultBranch, 0, state.fetched
	} else {
		state.failures++
	}
	r.queue.Done(key.Namespace)
	r.startWaiting()
	r.mu.Unlock()
	wake(r.wake, key)
}

// of returns the remote of a deployment; nil if its model is not in Git.
func (r *Remotes) of(d *v1alpha1.Deployment) *engine.Remote {
	return engine.RemoteOf(d, r.RepositoryURL)
}

func (r *Remotes) readRemote(ctx context.Context, d *v1alpha1.Deployment) ([]git.Ref, string, error) {
	ctx = turns.WithAccount(ctx, d.Namespace)
	remote := r.of(d)
	if remote.Secret == "" {
		return r.read(ctx, remote.URL, nil)
	}
	secret := &corev1.Secret{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: remote.Secret}, secret)
	switch {
	case apierrors.IsNotFound(err) && remote.Kept:
		return nil, "", errNoRepositorySecret
	case apierrors.IsNotFound(err):
		return nil, "", secretError(remote, "does not exist")
	case apierrors.IsForbidden(err):
		return nil, "", secretError(remote, fmt.Sprintf(
			"may not be read by the controller; bind ClusterRole quoin-account to it with a RoleBinding in namespace %q", d.Namespace))
	case err != nil:
		return nil, "", fmt.Errorf("read secret %q: %w", remote.Secret, err)
	}
	if remote.Kept && len(secret.Data[git.KeyCACert]) == 0 {
		return nil, "", errNoCertificate
	}
	if _, err := git.ParseCredentials(remote.URL, secret.Data); errors.Is(err, git.ErrInvalidCredentials) {
		return nil, "", secretError(remote, "cannot be used: "+err.Error())
	}
	return r.read(ctx, remote.URL, secret.Data)
}

// The states of a repository that Quoin keeps before it can be read.
var (
	// errNoRepositorySecret means that the Secret of the repository does not exist: the controller
	// creates it.
	errNoRepositorySecret = errors.New("the Secret of the repository does not exist")
	// errNoCertificate means that the Secret has no ca.crt: quoin apiserver adds it.
	errNoCertificate = errors.New("the Secret of the repository has no ca.crt")
)

// gitSecretError reports a Git secret that cannot be used.
type gitSecretError struct{ field, name, problem string }

func secretError(remote *engine.Remote, problem string) error {
	field := remote.Field
	if !remote.Kept {
		field += ".secretRef"
	}
	return &gitSecretError{field, remote.Secret, problem}
}

func (e *gitSecretError) Error() string {
	return fmt.Sprintf("%s: secret %q %s", e.field, e.name, e.problem)
}

// sourceOf returns a key of what a fetch depends on; when it changes, the state is discarded.
func (r *Remotes) sourceOf(d *v1alpha1.Deployment) string {
	remote := r.of(d)
	return string(d.UID) + "\x00" + remote.URL + "\x00" + remote.Secret
}

// interval returns the time from one fetch to the next. A fetch that has failed is repeated
// earlier if the interval of the deployment is long. waits is true if the deployment has not
// observed its spec.
func (s *remoteState) interval(remote *engine.Remote, waits bool) time.Duration {
	switch {
	case s.failures == 0:
		return remote.Interval
	case errors.Is(s.err, errNoCertificate):
		return startInterval
	}
	first := retryInterval
	if remote.Kept && waits { // otherwise a restart of quoin apiserver would soon count as a failure of the repository
		first = startInterval
	}
	return min(remote.Interval, first<<min(s.failures-1, 10))
}
