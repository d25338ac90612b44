// Package deployment reconciles Deployments: it decides which version production runs, rolls
// it out when the fleet has a free slot, and rolls it back when it does not become ready.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
var displayName = claims.DeploymentName

// Options configure the reconciler.
type Options struct {
	// IDs allocates the IDs of deployments and environments.
	IDs *ids.Allocator
	// Fleet limits concurrent rollouts.
	Fleet *Fleet
	// Remotes reads the branches of Git repositories.
	Remotes *Remotes
	// Hosts makes custom domains unique.
	Hosts claims.Hosts
}

type deploymentReconciler struct {
	Options
	client *kube.Client
	// since returns when it was called first. Standby replicas are created long before they reconcile.
	since func() time.Time
}

// New returns the reconciler of Deployments.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, opts Options) *reconciler.Reconciler[*v1alpha1.Deployment] {
	r := &deploymentReconciler{Options: opts, client: c.As(FieldManager), since: sync.OnceValue(clk.Now)}
	return &reconciler.Reconciler[*v1alpha1.Deployment]{
		Client: r.client, Recorder: recorder, Clock: clk,
		New:    func() *v1alpha1.Deployment { return &v1alpha1.Deployment{} },
		Work:   r.work,
		Delete: r.teardown,
		Forget: func(ctx context.Context, key client.ObjectKey) {
			r.forget(ctx, key)
			r.releaseHost(ctx, key)
		},
	}
}

type scope = reconciler.Scope[*v1alpha1.Deployment]

// forget removes the in-memory state of a deployment.
func (r *deploymentReconciler) forget(ctx context.Context, key client.ObjectKey) {
	r.Fleet.SetFailures(ctx, key, "", nil)
	r.Fleet.ReleaseSlot(ctx, key)
	r.Remotes.Forget(key)
}

// teardown leaves the deletion of the deployment's objects to owner references.
func (r *deploymentReconciler) teardown(ctx context.Context, s *scope) reconciler.Outcome {
	r.forget(ctx, client.ObjectKeyFromObject(s.Object))
	return reconciler.Progressing(v1alpha1.ReasonTerminating, "The deployment is being deleted")
}

// work runs the steps in order; the first that fails determines the outcome.
func (r *deploymentReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	hostProblem, err := r.claimHost(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	if suspend := s.Object.Spec.Suspend; suspend != nil && *suspend {
		// A suspended rollout does not occupy a slot.
		r.Fleet.ReleaseSlot(ctx, client.ObjectKeyFromObject(s.Object))
		return withHostProblem(pause(s.Object, reconciler.Done("Reconciliation is suspended").WithReason(v1alpha1.ReasonSuspended)), hostProblem)
	}
	account, err := tenant.Of(ctx, s.Client, s.Object.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return reconciler.NotFound(v1alpha1.ReasonAccountNotFound, fmt.Sprintf(
			"no Account has spec.namespace %q; the deployment starts when one has", s.Object.Namespace))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	production, err := r.production(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	if started := startedRollout(s.Object, production); started != nil {
		s.Object.Status.Rollout = started
	}
	if o := r.identify(ctx, s, account, production); o != nil {
		return r.blocked(ctx, s.Object, *o)
	}
	model, o := r.model(ctx, s)
	if o != nil {
		return r.blocked(ctx, s.Object, *o)
	}
	chosen, o := r.resolve(ctx, s, account)
	if o != nil {
		return r.blocked(ctx, s.Object, *o)
	}
	return r.version(ctx, s, observation{
		deployment: s.Object, choice: chosen, commit: model.commit, production: production,
		now: s.Clock.Now(), since: r.since(),
	}, model, hostProblem)
}

// pause returns an outcome that ends a reconciliation before the plan. Production does not get the current
// settings until a user resumes the deployment or corrects its spec, so it cannot be found to run the version
// of a rollout in progress: the deadline of the rollout does not pass meanwhile.
func pause(d *v1alpha1.Deployment, o reconciler.Outcome) reconciler.Outcome {
	if rollout := d.Status.Rollout; rollout != nil && (o.IsDone() || o.IsStalled()) {
		rollout.StartTime = nil
	}
	return o
}

// blocked pauses a rollout whose deployment waits for a change by a user: it keeps its slot, and does not try its version.
// Without a rollout there is no slot to keep: one that could not be recorded, because the spec had changed, may have got one.
func (r *deploymentReconciler) blocked(ctx context.Context, d *v1alpha1.Deployment, o reconciler.Outcome) reconciler.Outcome {
	switch key := client.ObjectKeyFromObject(d); {
	case !o.IsStalled():
	case d.Status.Rollout != nil:
		r.Fleet.Suspend(ctx, key)
	default:
		r.Fleet.ReleaseSlot(ctx, key)
	}
	return pause(d, o)
}

// identify claims the deployment's display name and allocates its IDs.
func (r *deploymentReconciler) identify(ctx context.Context, s *scope, account *v1alpha1.Account, production *v1alpha1.Environment) *reconciler.Outcome {
	d := s.Object
	holder, err := displayName.Ensure(ctx, s.Client, d)
	if err != nil {
		return failed(err)
	}
	if holder != "" {
		o := reconciler.Stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf(
			"spec.displayName: %q is used by deployment %q of the same account; choose another", d.DisplayName(), holder))
		return &o
	}
	if o := r.allocateIDs(ctx, s, account.Name, production); o != nil {
		return o
	}
	d.Status.ID = d.Labels[v1alpha1.LabelID]
	d.Status.URL = engine.URL(account, d)
	return nil
}

// allocateIDs allocates the IDs of the deployment and its production environment. An ID that
// the object carries already, for example after a restore, is kept and never allocated again. One that was replaced, as by
// kubectl replace, carries none, and keeps those in its status and on its environment.
func (r *deploymentReconciler) allocateIDs(ctx context.Context, s *scope, account string, production *v1alpha1.Environment) *reconciler.Outcome {
	d := s.Object
	carried, carriedEnvironment := d.Labels[v1alpha1.LabelID], d.Annotations[v1alpha1.AnnotationEnvironmentID]
	if d.Status.ID != "" && d.Status.ID == carried && carriedEnvironment != "" {
		return nil
	}
	carried = ids.Or(carried, d.Status.ID)
	if production != nil && metav1.IsControlledBy(production, d) {
		carriedEnvironment = ids.Or(carriedEnvironment, production.Labels[v1alpha1.LabelID])
	}
	if o := checkCopiedIDs(ctx, s, carried, carriedEnvironment); o != nil {
		return o
	}
	kept, err := r.IDs.KeepAll(ctx, account, ids.Number{Counter: ids.Deployments, Carried: carried}, ids.Number{Counter: ids.Environments, Carried: carriedEnvironment})
	if err != nil {
		return failed(err)
	}
	err = s.Label(ctx, func(d *v1alpha1.Deployment) {
		d.Labels = withID(d.Labels, v1alpha1.LabelID, kept[0])
		d.Annotations = withID(d.Annotations, v1alpha1.AnnotationEnvironmentID, kept[1])
	})
	if err != nil {
		return failed(err)
	}
	return nil
}

// checkCopiedIDs rejects IDs that another deployment has: its YAML was copied.
func checkCopiedIDs(ctx context.Context, s *scope, deployment, environment string) *reconciler.Outcome {
	if deployment == "" && environment == "" {
		return nil
	}
	list := &v1alpha1.DeploymentList{}
	if err := s.Live().List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		return failed(fmt.Errorf("list deployments to compare IDs: %w", err))
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == s.Object.UID || other.Status.ID == "" {
			continue
		}
		if other.Status.ID == deployment || (environment != "" && other.Annotations[v1alpha1.AnnotationEnvironmentID] == environment) {
			o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
				"metadata: label %s or annotation %s has an ID of deployment %q; remove both, and new IDs are allocated",
				v1alpha1.LabelID, v1alpha1.AnnotationEnvironmentID, other.Name))
			return &o
		}
	}
	return nil
}

// version decides which version production runs and applies it.
func (r *deploymentReconciler) version(ctx context.Context, s *scope, observed observation, model modelState, hostProblem *reconciler.Outcome) reconciler.Outcome {
	d, key := s.Object, client.ObjectKeyFromObject(s.Object)
	p := makePlan(observed)
	if p.start != nil {
		if denied := r.Fleet.AcquireSlot(ctx, key, *p.start); denied != "" {
			p = waitForSlot(observed, denied)
			p.outcome = p.outcome.RequeueIn(r.Fleet.RetryInterval())
			if delay := waitReportDelay - r.Fleet.Waited(key, observed.now); delay > 0 && isHandled(d) && onlyWaits(s.Initial(), observed, p) {
				return p.outcome.RequeueIn(delay).RequeueIn(model.nextFetch).Deferred()
			}
		}
	}
	d.Status = p.status
	r.mirror(d, observed.production)
	r.occupySlot(ctx, d, p)
	outcome := p.outcome.RequeueIn(model.nextFetch)
	if model.warning != nil && outcome.IsDone() {
		outcome = *model.warning
	}
	outcome = withHostProblem(outcome, hostProblem)
	delay := startReportDelay(s.Initial(), observed, p)
	if delay > 0 && outcome.IsProgressing() {
		// The environment records the start, with the version.
		outcome = outcome.RequeueIn(delay).Deferred()
	} else if err := r.record(ctx, s, p, outcome); err != nil {
		return reconciler.Failed(err)
	}
	observeMetrics(p)
	if err := r.apply(ctx, s, observed.production, p); err != nil {
		return reconciler.Failed(err)
	}
	return outcome
}

// record writes a decision to the status before it takes effect, so that it survives a crash.
func (r *deploymentReconciler) record(ctx context.Context, s *scope, p plan, outcome reconciler.Outcome) error {
	d, before := s.Object, s.Initial().Status.Rollout
	if err := s.Record(ctx, outcome); err != nil {
		return err
	}
	rollout := d.Status.Rollout
	if rollout == nil || p.overdue {
		// After Record: the next rollout must not start before the end of this one is recorded.
		r.Fleet.ReleaseSlot(ctx, client.ObjectKeyFromObject(d))
	}
	if rollout != nil && rollout.StartTime != nil && (p.started || before == nil) {
		s.Event(corev1.EventTypeNormal, v1alpha1.ReasonRolloutStarted, "Reconcile", "%s", describeStart(d))
	}
	return nil
}

// isHandled reports whether the status is that of the current generation and has no rollout: nothing is
// lost if it is written later.
func isHandled(d *v1alpha1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.Rollout == nil
}

// onlyWaits reports whether a plan only waits to start a rollout: it changes nothing in production, and nothing else
// in the status, such as a request that has been handled. A new commit of the data model needs no slot.
func onlyWaits(initial *v1alpha1.Deployment, o observation, p plan) bool {
	if o.production == nil {
		return false
	}
	spec := &o.production.Spec
	return spec.Image == p.run.Pinned() && spec.StoreImage == p.run.StoreImage && spec.ModelCommit == p.commit &&
		spec.DeploymentGeneration == o.deployment.Generation && differOnlyInRollout(&initial.Status, &p.status)
}

// occupySlot counts the rollout in progress, and the failures, for the limits of the fleet.
func (r *deploymentReconciler) occupySlot(ctx context.Context, d *v1alpha1.Deployment, p plan) {
	key, rollout := client.ObjectKeyFromObject(d), d.Status.Rollout
	r.Fleet.SetFailures(ctx, key, d.Spec.ReleaseChannel, d.Status.Failures)
	switch {
	case rollout == nil || p.overdue:
	case rollout.StartTime != nil:
		r.Fleet.OccupySlot(ctx, key, d.Spec.ReleaseChannel, rollout.To.Pinned())
	default:
		r.Fleet.Suspend(ctx, key)
	}
}

// describeStart describes the rollout in progress.
func describeStart(d *v1alpha1.Deployment) string {
	if len(d.Status.History) == 0 {
		return fmt.Sprintf("Rollout of %s started", d.Status.Rollout.To.Version)
	}
	return fmt.Sprintf("Rollout from %s to %s started", d.Status.History[0].Version, d.Status.Rollout.To.Version)
}

// observeMetrics records a rollout that ended.
func observeMetrics(p plan) {
	if p.result == "" {
		return
	}
	rolloutsTotal.WithLabelValues(p.result).Inc()
	rolloutSeconds.Observe(p.duration.Seconds())
}

func failed(err error) *reconciler.Outcome {
	o := reconciler.Failed(err)
	return &o
}

// withID sets a key to an ID unless it has a valid one.
func withID(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = ids.Or(m[key], value)
	return m
}
