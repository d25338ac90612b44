// Package deployment reconciles Deployments: decides which version production runs, brings
// it in at the fleet's pace, and puts the version before back when it does not become ready.
package deployment

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-deployment"

// displayName is unique in an account.
var displayName = claims.Attribute[*v1alpha1.Deployment]{
	Kind: "Deployment", Field: "displayName",
	Value: (*v1alpha1.Deployment).DisplayName,
	New:   func() *v1alpha1.Deployment { return &v1alpha1.Deployment{} },
}

// Options configure the reconciler.
type Options struct {
	// IDs gives out numbers.
	IDs *ids.Allocator
	// Fleet paces rollouts.
	Fleet *Fleet
	// Remotes reads the branches of Git repositories.
	Remotes *Remotes
}

type deploymentReconciler struct{ Options }

// New returns the reconciler of Deployments.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, opts Options) *reconciler.Reconciler[*v1alpha1.Deployment] {
	r := &deploymentReconciler{Options: opts}
	return &reconciler.Reconciler[*v1alpha1.Deployment]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:    func() *v1alpha1.Deployment { return &v1alpha1.Deployment{} },
		Work:   r.work,
		Delete: r.teardown,
		Gone:   r.forget,
	}
}

type scope = reconciler.Scope[*v1alpha1.Deployment]

// forget gives back what a deployment held in memory.
func (r *deploymentReconciler) forget(ctx context.Context, key client.ObjectKey) {
	r.Fleet.Release(ctx, key)
	r.Remotes.Forget(key)
}

// teardown leaves it to owner references to remove what the deployment consists of.
func (r *deploymentReconciler) teardown(ctx context.Context, s *scope) reconciler.Outcome {
	r.forget(ctx, client.ObjectKeyFromObject(s.Object))
	return reconciler.Progressing(v1alpha1.ReasonTerminating, "The deployment is being deleted")
}

// work takes the steps in order; the first that cannot be taken ends it, and says why.
func (r *deploymentReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	if suspend := s.Object.Spec.Suspend; suspend != nil && *suspend {
		// A rollout that is suspended lets another one begin.
		r.Fleet.Release(ctx, client.ObjectKeyFromObject(s.Object))
		return reconciler.Done("Reconciliation is suspended; everything stays as it is").Because(v1alpha1.ReasonSuspended)
	}
	account, err := tenant.Of(ctx, s.Client, s.Object.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return reconciler.Stalled(v1alpha1.ReasonAccountNotFound, fmt.Sprintf(
			"no Account has spec.namespace %q; the deployment runs as soon as one does", s.Object.Namespace))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	if o := r.identify(ctx, s, account); o != nil {
		return *o
	}
	model, o := r.model(ctx, s)
	if o != nil {
		return *o
	}
	return r.version(ctx, s, model)
}

// identify makes sure that the deployment's name is its own, and gives it its numbers.
func (r *deploymentReconciler) identify(ctx context.Context, s *scope, account *v1alpha1.Account) *reconciler.Outcome {
	d := s.Object
	holder, err := displayName.Ensure(ctx, s.Client, d)
	if err != nil {
		return failed(err)
	}
	if holder != "" {
		o := reconciler.Stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf(
			"spec.displayName: %q belongs to deployment %q of the same account; choose another", d.DisplayName(), holder))
		return &o
	}
	if o := r.number(ctx, s, account.Name); o != nil {
		return o
	}
	d.Status.ID = d.Labels[v1alpha1.LabelID]
	d.Status.URL = engine.URL(account, d)
	return nil
}

// number gives the deployment and its production environment their numbers. A number that
// is already there, as after a restore, is kept and not given out again.
func (r *deploymentReconciler) number(ctx context.Context, s *scope, account string) *reconciler.Outcome {
	d := s.Object
	carried, environment := d.Labels[v1alpha1.LabelID], d.Annotations[v1alpha1.AnnotationEnvironmentID]
	if d.Status.ID != "" && d.Status.ID == carried && environment != "" {
		return nil
	}
	if o := copied(ctx, s, carried, environment); o != nil {
		return o
	}
	deploymentID, err := r.IDs.Keep(ctx, account, ids.Deployments, carried)
	if err != nil {
		return failed(err)
	}
	environmentID, err := r.IDs.Keep(ctx, account, ids.Environments, environment)
	if err != nil {
		return failed(err)
	}
	err = s.Label(ctx, func(d *v1alpha1.Deployment) {
		d.Labels = withNumber(d.Labels, v1alpha1.LabelID, deploymentID)
		d.Annotations = withNumber(d.Annotations, v1alpha1.AnnotationEnvironmentID, environmentID)
	})
	if err != nil {
		return failed(err)
	}
	return nil
}

// copied finds numbers that came along when somebody copied another deployment's YAML.
func copied(ctx context.Context, s *scope, deployment, environment string) *reconciler.Outcome {
	if deployment == "" && environment == "" {
		return nil
	}
	list := &v1alpha1.DeploymentList{}
	if err := s.Live().List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		return failed(fmt.Errorf("look for the numbers of others: %w", err))
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == s.Object.UID || other.Status.ID == "" {
			continue
		}
		if other.Status.ID == deployment || (environment != "" && other.Annotations[v1alpha1.AnnotationEnvironmentID] == environment) {
			o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
				"metadata: the label %s or the annotation %s holds a number of deployment %q; remove both, new numbers are given",
				v1alpha1.LabelID, v1alpha1.AnnotationEnvironmentID, other.Name))
			return &o
		}
	}
	return nil
}

// version decides what production runs and brings it in.
func (r *deploymentReconciler) version(ctx context.Context, s *scope, model modelState) reconciler.Outcome {
	d := s.Object
	target, byHand, o := r.resolve(ctx, s)
	if o != nil {
		return *o
	}
	production, err := r.production(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	key := client.ObjectKeyFromObject(d)
	p := makePlan(observation{
		deployment: d, target: *target, commit: model.commit, byHand: byHand, production: production, now: s.Clock.Now(),
		takeSlot: func() bool { return r.Fleet.Acquire(ctx, key) },
	})
	r.mirror(d, production)
	if rollout := d.Status.Rollout; rollout != nil && rollout.StartTime != nil {
		r.Fleet.Hold(ctx, key)
	}
	// What was decided is recorded before it is acted on: after a crash it is still decided.
	outcome := p.outcome.In(model.lookAgain)
	if model.trouble != nil && outcome.IsDone() {
		outcome = *model.trouble
	}
	if err := s.Record(ctx, outcome); err != nil {
		return reconciler.Failed(err)
	}
	if d.Status.Rollout == nil {
		// Only now: who takes the place must not begin before this one's end is on record.
		r.Fleet.Release(ctx, key)
	}
	count(p)
	if err := r.apply(ctx, s, p); err != nil {
		return reconciler.Failed(err)
	}
	return outcome
}

// count counts a rollout that ended. People are told when the version before is back.
func count(p plan) {
	if p.ended == "" {
		return
	}
	rolloutsTotal.WithLabelValues(p.ended).Inc()
	rolloutSeconds.Observe(p.took.Seconds())
}

func failed(err error) *reconciler.Outcome {
	o := reconciler.Failed(err)
	return &o
}

// withNumber sets a key that has no number yet.
func withNumber(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = ids.Or(m[key], value)
	return m
}
