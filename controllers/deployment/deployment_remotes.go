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
	// lookTimeout bounds one look at a remote.
	lookTimeout = 30 * time.Second
	// looksAtOnce is how many remotes are read at the same time. A remote that hangs costs a
	// place here, never a worker of the controller.
	looksAtOnce = 8
)

// ReadRefs reads the branches of a Git repository and the name of its default branch. secret
// is the data of the Git secret, nil without one.
type ReadRefs func(ctx context.Context, url string, secret map[string][]byte) ([]git.Ref, string, error)

// Remotes remembers what the remotes of deployments look like, and looks at them in the
// background at their intervals.
type Remotes struct {
	live  client.Reader
	read  ReadRefs
	clock clock.PassiveClock
	wake  chan event.GenericEvent
	turn  chan struct{}

	mu    sync.Mutex
	known map[client.ObjectKey]*remoteState
}

// remoteState is one remote as it was last seen.
type remoteState struct {
	source        string
	request       string
	refs          []git.Ref
	defaultBranch string
	err           error
	failures      int
	seen, good    time.Time
	looking       bool
	// next is when it is looked at again.
	next time.Duration
}

// NewRemotes returns Remotes that read secrets and repositories with the given functions.
func NewRemotes(live client.Reader, read ReadRefs, clk clock.PassiveClock) *Remotes {
	return &Remotes{
		live: live, read: read, clock: clk,
		wake:  make(chan event.GenericEvent, 1024),
		turn:  make(chan struct{}, looksAtOnce),
		known: map[client.ObjectKey]*remoteState{},
	}
}

// Look returns the deployment's remote as it was last seen, and has it looked at again when
// that is too long ago; the deployment is reconciled when that look ends.
func (r *Remotes) Look(ctx context.Context, d *v1alpha1.Deployment) remoteState {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(d)
	source, request := sourceOf(d), d.Annotations[v1alpha1.AnnotationReconcile]
	state := r.known[key]
	// A request to look now waits for the end of the look under way, whose turn it would only
	// take from others: after that the deployment is reconciled again.
	if state == nil || state.source != source || (state.request != request && !state.looking) {
		state = &remoteState{source: source, request: request}
		r.known[key] = state
	}
	every := gitInterval(d)
	age := r.clock.Since(state.seen)
	if !state.looking && age >= every {
		state.looking = true
		go r.look(context.WithoutCancel(ctx), key, d.DeepCopy(), state)
	}
	seen := *state
	seen.next = wait.Jitter(max(every-age, time.Second), 0.1)
	return seen
}

// Forget ends the memory of a deployment's remote.
func (r *Remotes) Forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, key)
}

func (r *Remotes) look(ctx context.Context, key client.ObjectKey, d *v1alpha1.Deployment, state *remoteState) {
	r.turn <- struct{}{}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	refs, defaultBranch, err := r.readRemote(ctx, d)
	cancel()
	<-r.turn

	r.mu.Lock()
	state.looking, state.seen, state.err = false, r.clock.Now(), err
	if err == nil {
		state.refs, state.defaultBranch, state.failures, state.good = refs, defaultBranch, 0, state.seen
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

// gitSecretError says that a Git secret cannot be used, and which.
type gitSecretError struct{ name, problem string }

func (e *gitSecretError) Error() string {
	return fmt.Sprintf("spec.model.git.secretRef: secret %q %s", e.name, e.problem)
}

// known tells whether the remote has answered.
func (s remoteState) known() bool { return !s.good.IsZero() }

// production is the name of the branch that production runs.
func (s remoteState) production(d *v1alpha1.Deployment) string {
	if branch := d.Spec.Model.Git.Branch; branch != "" {
		return branch
	}
	return s.defaultBranch
}

// outcome says what is wrong with the remote.
func (s remoteState) outcome() reconciler.Outcome {
	var secret *gitSecretError
	if errors.As(s.err, &secret) {
		return reconciler.Failing(v1alpha1.ReasonGitSecretUnreadable, secret.Error(), s.next)
	}
	return reconciler.Failing(v1alpha1.ReasonGitFailed, "spec.model.git: "+s.err.Error(), s.next)
}

// sourceOf is what a look depends on: a change of it makes what is known worthless.
func sourceOf(d *v1alpha1.Deployment) string {
	source := d.Spec.Model.Git
	secret := ""
	if source.SecretRef != nil {
		secret = source.SecretRef.Name
	}
	return string(d.UID) + "\x00" + source.URL + "\x00" + secret
}

func gitInterval(d *v1alpha1.Deployment) time.Duration {
	if every := d.Spec.Model.Git.Interval; every != nil {
		return every.Duration
	}
	return defaultGitInterval
}
