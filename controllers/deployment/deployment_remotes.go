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
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	defaultGitInterval = time.Minute
	// fetchTimeout bounds one fetch of a remote.
	fetchTimeout = 30 * time.Second
	// maxConcurrentFetches limits how many remotes are fetched at the same time. A remote that
	// hangs occupies one of these slots, never a worker of the controller.
	maxConcurrentFetches = 8
)

// ReadRefs returns the branches of a Git repository and the name of its default branch.
// secret is the data of the Git secret; nil when there is none.
type ReadRefs func(ctx context.Context, url string, secret map[string][]byte) ([]git.Ref, string, error)

// Remotes caches the refs of the deployments' remotes and fetches them in the background at
// the interval of each deployment.
type Remotes struct {
	live  client.Reader
	read  ReadRefs
	clock clock.PassiveClock
	wake  chan event.GenericEvent
	slots chan struct{}

	fetches sync.WaitGroup

	mu     sync.Mutex
	states map[client.ObjectKey]*remoteState
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
	fetching           bool
	// next is the time until the next fetch.
	next time.Duration
}

// NewRemotes returns Remotes that read secrets with live and repositories with read.
func NewRemotes(live client.Reader, read ReadRefs, clk clock.PassiveClock) *Remotes {
	return &Remotes{
		live: live, read: read, clock: clk,
		wake:   make(chan event.GenericEvent, 1024),
		slots:  make(chan struct{}, maxConcurrentFetches),
		states: map[client.ObjectKey]*remoteState{},
	}
}

// State returns the state of the deployment's remote after the last fetch. If the interval
// has passed, it starts a fetch; the deployment is reconciled when the fetch ends.
func (r *Remotes) State(ctx context.Context, d *v1alpha1.Deployment) remoteState {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(d)
	source, request := sourceOf(d), d.Annotations[v1alpha1.AnnotationReconcile]
	state := r.states[key]
	// A request for an immediate fetch waits for a fetch in progress instead of occupying
	// another slot: the deployment is reconciled when that one ends.
	if state == nil || state.source != source || (state.request != request && !state.fetching) {
		state = &remoteState{source: source, request: request}
		r.states[key] = state
	}
	interval := gitInterval(d)
	age := r.clock.Since(state.fetched)
	if !state.fetching && age >= interval {
		state.fetching = true
		d := d.DeepCopy()
		r.fetches.Go(func() { r.fetch(context.WithoutCancel(ctx), key, d, state) })
	}
	current := *state
	current.next = wait.Jitter(max(interval-age, time.Second), 0.1)
	return current
}

// Wait waits until no fetch is in progress.
func (r *Remotes) Wait() { r.fetches.Wait() }

// Forget removes the state of a deployment's remote.
func (r *Remotes) Forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, key)
}

func (r *Remotes) fetch(ctx context.Context, key client.ObjectKey, d *v1alpha1.Deployment, state *remoteState) {
	r.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	refs, defaultBranch, err := r.readRemote(ctx, d)
	cancel()
	<-r.slots

	r.mu.Lock()
	state.fetching, state.fetched, state.err = false, r.clock.Now(), err
	if err == nil {
		state.refs, state.defaultBranch, state.failures, state.succeeded = refs, defaultBranch, 0, state.fetched
	} else {
		state.failures++
	}
	r.mu.Unlock()
	wake(r.wake, key)
}

func (r *Remotes) readRemote(ctx context.Context, d *v1alpha1.Deployment) ([]git.Ref, string, error) {
	source := d.Spec.Model.Git
	var data map[string][]byte
	if ref := source.SecretRef; ref != nil {
		secret := &corev1.Secret{}
		err := r.live.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: ref.Name}, secret)
		switch {
		case apierrors.IsNotFound(err):
			return nil, "", &gitSecretError{ref.Name, "does not exist"}
		case apierrors.IsForbidden(err):
			return nil, "", &gitSecretError{ref.Name, fmt.Sprintf(
				"may not be read by the controller; bind ClusterRole quoin-account to it with a RoleBinding in namespace %q", d.Namespace)}
		case err != nil:
			return nil, "", fmt.Errorf("read secret %q: %w", ref.Name, err)
		}
		if _, err := git.ParseCredentials(source.URL, secret.Data); err != nil {
			return nil, "", &gitSecretError{ref.Name, "cannot be used: " + err.Error()}
		}
		data = secret.Data
	}
	return r.read(ctx, source.URL, data)
}

// gitSecretError reports a Git secret that cannot be used.
type gitSecretError struct{ name, problem string }

func (e *gitSecretError) Error() string {
	return fmt.Sprintf("spec.model.git.secretRef: secret %q %s", e.name, e.problem)
}

// known reports whether a fetch has succeeded.
func (s remoteState) known() bool { return !s.succeeded.IsZero() }

// productionBranch returns the name of the branch that production runs.
func (s remoteState) productionBranch(d *v1alpha1.Deployment) string {
	if branch := d.Spec.Model.Git.Branch; branch != "" {
		return branch
	}
	return s.defaultBranch
}

// outcome returns the outcome of a failed fetch.
func (s remoteState) outcome() reconciler.Outcome {
	var secret *gitSecretError
	if errors.As(s.err, &secret) {
		return reconciler.Failing(v1alpha1.ReasonGitSecretUnreadable, secret.Error(), s.next)
	}
	return reconciler.Failing(v1alpha1.ReasonGitFailed, "spec.model.git: "+s.err.Error(), s.next)
}

// sourceOf returns a key of what a fetch depends on; when it changes, the state is discarded.
func sourceOf(d *v1alpha1.Deployment) string {
	source := d.Spec.Model.Git
	secret := ""
	if source.SecretRef != nil {
		secret = source.SecretRef.Name
	}
	return string(d.UID) + "\x00" + source.URL + "\x00" + secret
}

func gitInterval(d *v1alpha1.Deployment) time.Duration {
	if interval := d.Spec.Model.Git.Interval; interval != nil {
		return interval.Duration
	}
	return defaultGitInterval
}
