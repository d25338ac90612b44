package deployment

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
)

// production returns the production environment; nil when there is none.
func (r *deploymentReconciler) production(ctx context.Context, s *scope) (*v1alpha1.Environment, error) {
	env := &v1alpha1.Environment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: v1alpha1.ProductionName(s.Object.Name)}, env)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read production environment: %w", err)
	}
	return env, nil
}

// maxStartReportDelay is how long the status of a deployment that is Ready may leave out that a rollout
// has started. It is written earlier when the environment reports on it.
const maxStartReportDelay = 90 * time.Second

// startReportDelay returns how long the status may leave out the rollout that a plan starts or continues,
// because the environment has its start; zero if the status is to be written now. This concerns rollouts
// that follow the channel, of deployments that are Ready: most of them end before a user would see them.
func startReportDelay(initial *v1alpha1.Deployment, o observation, p plan) time.Duration {
	r := p.status.Rollout
	if r == nil || r.StartTime == nil || !sameImage(r.To, p.run) || o.production == nil || o.manual || initial.Status.Rollout != nil {
		return 0
	}
	if c := meta.FindStatusCondition(initial.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue || isPaused(c) {
		return 0
	}
	env := o.production
	if p.started && env.Spec.Image == r.To.Pinned() {
		return 0 // the environment is not written, so it cannot record the start
	}
	if c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionReady); !p.started && c != nil && c.ObservedGeneration == env.Generation {
		return 0 // it reports on this version
	}
	if !differOnlyInRollout(&initial.Status, &p.status) {
		return 0
	}
	return max(0, r.StartTime.Add(maxStartReportDelay).Sub(o.now))
}

// differOnlyInRollout reports whether two statuses are equal but for a rollout, and what follows from it.
func differOnlyInRollout(before, after *v1alpha1.DeploymentStatus) bool {
	before, after = before.DeepCopy(), after.DeepCopy()
	for _, status := range []*v1alpha1.DeploymentStatus{before, after} {
		status.Rollout, status.Pin, status.TargetVersion, status.Conditions = nil, nil, "", nil
	}
	return equality.Semantic.DeepEqual(before, after)
}

// isPaused reports whether the Ready condition of a deployment is that of one that rolls nothing out.
func isPaused(ready *metav1.Condition) bool {
	return ready.Reason == v1alpha1.ReasonAsleep || ready.Reason == v1alpha1.ReasonSuspended
}

// startedRollout returns the rollout whose start production has recorded with its version, until the status
// of the deployment has this rollout or its result; nil if there is none.
func startedRollout(d *v1alpha1.Deployment, production *v1alpha1.Environment) *v1alpha1.RolloutStatus {
	if production == nil || d.Status.Rollout != nil || len(d.Status.History) == 0 {
		return nil
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady); c == nil || isPaused(c) {
		return nil
	}
	r := recordedStart(production)
	if r == nil || r.To.Pinned() != production.Spec.Image || sameImage(r.To, d.Status.History[0]) {
		return nil
	}
	if slices.ContainsFunc(d.Status.Failures, func(f v1alpha1.FailedVersion) bool {
		return f.Image == r.To.Pinned() && !f.Time.Before(r.StartTime)
	}) {
		return nil
	}
	return r
}

// recordedStart returns the rollout in the annotation of an environment; nil if there is none.
func recordedStart(env *v1alpha1.Environment) *v1alpha1.RolloutStatus {
	r := &v1alpha1.RolloutStatus{}
	if json.Unmarshal([]byte(env.Annotations[v1alpha1.AnnotationRollout]), r) != nil || r.StartTime == nil {
		return nil
	}
	return r
}

// startAnnotations returns the annotations of production. The start of a rollout is kept as long as its
// version, so that its end needs no write.
func startAnnotations(production *v1alpha1.Environment, p plan) (map[string]string, error) {
	if production == nil {
		return nil, nil
	}
	if p.started && production.Spec.Image != p.run.Pinned() {
		text, err := json.Marshal(p.status.Rollout)
		return map[string]string{v1alpha1.AnnotationRollout: string(text)}, err
	}
	if r := recordedStart(production); r != nil && r.To.Pinned() == p.run.Pinned() {
		return map[string]string{v1alpha1.AnnotationRollout: production.Annotations[v1alpha1.AnnotationRollout]}, nil
	}
	return nil, nil
}

// apply writes the planned version and commit to the production environment.
func (r *deploymentReconciler) apply(ctx context.Context, s *scope, production *v1alpha1.Environment, p plan) error {
	d, run := s.Object, p.run
	annotations, err := startAnnotations(production, p)
	if err != nil {
		return err
	}
	env := &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name),
			Labels: map[string]string{
				v1alpha1.LabelID:         d.Annotations[v1alpha1.AnnotationEnvironmentID],
				v1alpha1.LabelDeployment: d.Name,
			},
			Annotations: annotations,
		},
		Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef:        v1alpha1.LocalReference{Name: d.Name},
			Type:                 v1alpha1.EnvironmentProduction,
			DeploymentGeneration: d.Generation,
			Version:              run.Version,
			Image:                run.Pinned(),
			StoreImage:           run.StoreImage,
			ModelCommit:          p.commit,
		},
	}
	if source := engine.SourceOf(d); source != "" {
		metav1.SetMetaDataAnnotation(&env.ObjectMeta, v1alpha1.AnnotationSource, source)
	}
	if err := controllerutil.SetControllerReference(d, env, s.Scheme()); err != nil {
		return err
	}
	_, _, err = kube.Apply(ctx, s.Client, env)
	return err
}

// mirror copies the current version and the production environment's replicas to the status.
func (r *deploymentReconciler) mirror(d *v1alpha1.Deployment, production *v1alpha1.Environment) {
	status := &d.Status
	if len(status.History) > 0 {
		current := status.History[0]
		status.CurrentVersion, status.ReleaseChannelVersion, status.CurrentImage = current.Version, current.Image, current.Pinned()
	}
	if production == nil {
		return
	}
	status.Replicas, status.ReadyReplicas = production.Status.Replicas, production.Status.ReadyReplicas
	status.Selector = production.Status.Selector
}

// repositoryUser is the user name in the Secret of a repository. Only the password is checked.
const repositoryUser = "quoin"

// createRepositorySecret creates the Secret with which the controller and the pods read the repository
// that Quoin keeps for a deployment. An existing Secret is kept.
func (r *deploymentReconciler) createRepositorySecret(ctx context.Context, s *scope) error {
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Object.Namespace, Name: engine.RepositorySecretName(s.Object.Name),
			Labels: map[string]string{engine.LabelManagedBy: engine.ManagedBy, v1alpha1.LabelDeployment: s.Object.Name},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(repositoryUser),
			corev1.BasicAuthPasswordKey: []byte(rand.Text()),
		},
	}
	if err := controllerutil.SetControllerReference(s.Object, secret, s.Scheme()); err != nil {
		return err
	}
	if err := s.Client.Client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create secret %q: %w", secret.Name, err)
	}
	return nil
}
