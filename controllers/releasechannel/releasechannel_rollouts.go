package releasechannel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// IndexChannel is the indexed field of deployments that names their channel.
	IndexChannel = "spec.releaseChannel"
	// conflictBackoff is the time until the next reconciliation after a conflict.
	conflictBackoff = 100 * time.Millisecond
	// A count of the results of largeFleet deployments or more is followed by a pause of countPause for each of them. The results of
	// n deployments would otherwise cause n counts of n deployments.
	largeFleet = 1000
	countPause = 100 * time.Microsecond
)

// Rollouts reconciles the rollouts of a channel's versions: which of them are accepted, which are
// stopped, and which is proven. It is a controller besides that of the scans, because results of
// rollouts must not cause scans, and a registry that does not answer must not delay a stop.
type Rollouts struct {
	client   *kube.Client
	recorder reconciler.Recorder

	mu sync.Mutex
	// next are the times at which the results of channels with large fleets may be counted again.
	next map[string]time.Time
}

// NewRollouts returns the reconciler of the rollouts of channels.
func NewRollouts(c *kube.Client, recorder reconciler.Recorder) *Rollouts {
	return &Rollouts{client: c.As(FieldManager), recorder: recorder, next: map[string]time.Time{}}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=deployments,verbs=get;list;watch

// SetupRollouts starts Rollouts, or a wrapper of it, in a manager.
func SetupRollouts(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("releasechannel-rollouts").
		For(&v1alpha1.ReleaseChannel{}, builder.WithPredicates(specOrVersions)).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment), builder.WithPredicates(resultsChanged)).
		WithOptions(opts).
		Complete(r)
}

// specOrVersions selects changes of the spec and of the list of versions.
var specOrVersions = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.ReleaseChannel)
		after, ok2 := e.ObjectNew.(*v1alpha1.ReleaseChannel)
		return ok && ok2 && !equality.Semantic.DeepEqual(before.Status.Versions, after.Status.Versions)
	},
})

// resultsChanged selects changes of what a deployment has run, of its failures and of its channel.
var resultsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.Deployment)
		after, ok2 := e.ObjectNew.(*v1alpha1.Deployment)
		return ok && ok2 && (before.Spec.ReleaseChannel != after.Spec.ReleaseChannel ||
			!equality.Semantic.DeepEqual(before.Status.History, after.Status.History) ||
			!equality.Semantic.DeepEqual(before.Status.Failures, after.Status.Failures))
	},
}

// ofDeployment maps a deployment to its channel. EnqueueRequestsFromMapFunc calls it with the old
// and the new object.
func ofDeployment(_ context.Context, obj client.Object) []reconcile.Request {
	d, ok := obj.(*v1alpha1.Deployment)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: d.Spec.ReleaseChannel}}}
}

// Reconcile implements reconcile.Reconciler.
func (r *Rollouts) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	channel := &v1alpha1.ReleaseChannel{}
	if err := r.client.Get(ctx, req.NamespacedName, channel); err != nil {
		if apierrors.IsNotFound(err) {
			stoppedVersions.set(req.Name, 0)
			r.counted(req.Name, 0)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if pause := r.pause(req.Name); pause > 0 {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	list := &v1alpha1.DeploymentList{}
	if err := r.client.List(ctx, list, client.MatchingFields{IndexChannel: req.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list deployments of the channel: %w", err)
	}
	r.counted(req.Name, len(list.Items))
	before := channel.DeepCopy()
	judge(channel, list.Items)
	stopped := slices.DeleteFunc(slices.Clone(channel.Status.Rollouts), func(v v1alpha1.VersionRollout) bool {
		return v.State != v1alpha1.VersionStopped
	})
	stoppedVersions.set(req.Name, len(stopped))
	if _, err := kube.PatchStatus(ctx, r.client, before, channel); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: wait.Jitter(conflictBackoff, 1)}, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.recordEvents(before, channel)
	return ctrl.Result{}, nil
}

// pause returns the time until the results of a channel may be counted again.
func (r *Rollouts) pause(channel string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.next[channel])
}

// counted notes that the results of a number of deployments of a channel are counted now.
func (r *Rollouts) counted(channel string, deployments int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if deployments < largeFleet {
		delete(r.next, channel)
		return
	}
	r.next[channel] = time.Now().Add(time.Duration(deployments) * countPause)
}

// setCondition sets the condition VersionStopped while the newest version is stopped.
func setCondition(channel *v1alpha1.ReleaseChannel, newest v1alpha1.VersionRollout) {
	channel.Status.StoppedVersion = ""
	if newest.State != v1alpha1.VersionStopped {
		meta.RemoveStatusCondition(&channel.Status.Conditions, v1alpha1.ConditionVersionStopped)
		return
	}
	channel.Status.StoppedVersion = newest.Version
	meta.SetStatusCondition(&channel.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionVersionStopped, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTooManyFailures,
		Message: describeStop(newest) + ". Release a newer version, or set spec.rollout.resumeVersion to " + newest.Version, ObservedGeneration: channel.Generation,
	})
}

func describeStop(v v1alpha1.VersionRollout) string {
	return fmt.Sprintf("Version %s failed on %d of the first %d deployments that tried it; no other deployment is upgraded to it",
		v.Version, v.Failed, v.Tried)
}

// recordEvents writes an event for each version that was stopped or resumed.
func (r *Rollouts) recordEvents(before, after *v1alpha1.ReleaseChannel) {
	for _, v := range after.Status.Rollouts {
		was := recorded(&before.Status, v.Version, v.Image).State
		switch {
		case v.State == v1alpha1.VersionStopped && was != v1alpha1.VersionStopped:
			r.recorder.Eventf(after, nil, corev1.EventTypeWarning, v1alpha1.ReasonVersionStopped, "Reconcile", "%s", describeStop(v))
		case v.State == v1alpha1.VersionAccepted && was == v1alpha1.VersionStopped:
			r.recorder.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.ReasonVersionResumed, "Reconcile", "Version %s is rolled out again", v.Version)
		}
	}
}
