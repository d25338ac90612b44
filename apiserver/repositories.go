package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/githttp"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/kube"
)

// newGit returns the server of repositories; repositories is nil without a database.
func newGit(k8s cluster.Cluster, writer *kube.Client, known *catalog.Catalog, repositories *repository.Repositories) *githttp.Server {
	return githttp.New(githttp.Options{
		Deployments: known, Repositories: repositories, Cached: k8s.GetCache(), Live: k8s.GetAPIReader(),
		Moved: func(ctx context.Context, d *v1alpha1.Deployment) error {
			// The branches have moved: that a client disconnects must not delay their rollout.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), edit.Timeout)
			defer cancel()
			now := time.Now().UTC().Format(time.RFC3339Nano)
			return edit.Annotate(recording.Named(ctx, audit.TriggeredNewBuild), writer, d, v1alpha1.AnnotationReconcile, now)
		},
	})
}

const (
	// publishInterval is the time between two scans for repositories whose Secrets lack the certificate.
	publishInterval = 2 * time.Second
	// maxPublishDelay bounds the time after which a Secret that could not be written is read again.
	maxPublishDelay = time.Minute
	// confirmInterval is the time after which a Secret with the certificate is read again.
	confirmInterval = time.Hour
)

// repositorySecrets adds the certificates by which this server is verified to the Secrets of
// repositories, and replaces them when they change. The Secrets are created by quoin controller. All
// replicas do so, and write the same.
type repositorySecrets struct {
	cached  client.Reader
	client  client.Client // must not read Secrets from a cache
	trusted func() []byte // returns certificates in PEM
	log     *slog.Logger
	now     func() time.Time
	// states are those of the deployments with a repository.
	states map[types.UID]publication
}

// publication is the state of the Secret of a repository.
type publication struct {
	// published is what the Secret has; nil if unknown.
	published []byte
	// next is the time from which the Secret is read again, delay the time since it was read.
	next  time.Time
	delay time.Duration
	// failure is the last logged error.
	failure string
}

func newRepositorySecrets(cached client.Reader, c client.Client, trusted func() []byte, log *slog.Logger) *repositorySecrets {
	return &repositorySecrets{cached: cached, client: c, trusted: trusted, log: log, now: time.Now, states: map[types.UID]publication{}}
}

// run keeps the Secrets up to date until the context ends. It returns nil.
func (s *repositorySecrets) run(ctx context.Context) error {
	ticker := time.NewTicker(publishInterval)
	defer ticker.Stop()
	for {
		if err := s.sync(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("Cannot list the deployments with a repository", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// sync writes the Secrets that are due.
func (s *repositorySecrets) sync(ctx context.Context) error {
	list := &v1alpha1.DeploymentList{}
	if err := s.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	trusted, states := s.trusted(), map[types.UID]publication{}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Spec.Model.Repository == nil || !d.DeletionTimestamp.IsZero() {
			continue
		}
		state := s.states[d.UID]
		outdated := state.published != nil && !bytes.Equal(state.published, trusted)
		if outdated || waits(d) || !s.now().Before(state.next) {
			state = s.publish(ctx, d, trusted, state)
		}
		states[d.UID] = state
	}
	s.states = states
	return nil
}

// waits reports whether the controller waits for the certificate of a deployment: also after a user has
// deleted the Secret.
func waits(d *v1alpha1.Deployment) bool {
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionUnknown && c.Reason == v1alpha1.ReasonRepositoryUnavailable
}

// publish writes the Secret of a deployment, if it differs, and returns its state.
func (s *repositorySecrets) publish(ctx context.Context, d *v1alpha1.Deployment, trusted []byte, before publication) publication {
	err := s.write(ctx, types.NamespacedName{Namespace: d.Namespace, Name: engine.RepositorySecretName(d.Name)}, trusted)
	if err == nil {
		return publication{published: trusted, next: s.now().Add(confirmInterval)}
	}
	after := publication{delay: min(max(2*before.delay, publishInterval), maxPublishDelay), failure: before.failure}
	after.next = s.now().Add(after.delay)
	if apierrors.IsNotFound(err) {
		return after // the controller creates it
	}
	if text := err.Error(); text != after.failure && ctx.Err() == nil {
		after.failure = text
		s.log.Error("Cannot add the certificate to the Secret of a repository", "namespace", d.Namespace, "deployment", d.Name, "error", err)
	}
	return after
}

// write writes the certificates into a Secret if it has others.
func (s *repositorySecrets) write(ctx context.Context, key types.NamespacedName, trusted []byte) error {
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, key, secret)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in namespace %q: %w", key.Namespace, err)
	}
	if err != nil || bytes.Equal(secret.Data[git.KeyCACert], trusted) {
		return err
	}
	before := secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[git.KeyCACert] = trusted
	return s.client.Patch(ctx, secret, client.MergeFrom(before), client.FieldOwner(edit.Manager))
}
