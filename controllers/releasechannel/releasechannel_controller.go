// Package releasechannel reconciles ReleaseChannels: it reads the tags of an image repository and
// records the versions of the channel in the status, pinned by digest.
package releasechannel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/registry"
)

const (
	// FieldManager is the field manager of this controller's writes.
	FieldManager = "quoin-releasechannel"

	defaultInterval = 5 * time.Minute
	// retryInterval is the maximum time until a failed scan is retried.
	retryInterval = time.Minute
	// scanTimeout bounds one scan.
	scanTimeout = 2 * time.Minute
)

// Options configure the reconciler.
type Options struct {
	// Namespace is the namespace of the pull secrets: that of the controller.
	Namespace string
	// Connect returns a client of the channel's registry; an HTTP client when nil.
	Connect func(registry.Options) (Registry, error)
}

type channelReconciler struct{ Options }

// New returns the reconciler of ReleaseChannels.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, opts Options) *reconciler.Reconciler[*v1alpha1.ReleaseChannel] {
	if opts.Connect == nil {
		opts.Connect = connect
	}
	r := &channelReconciler{Options: opts}
	return &reconciler.Reconciler[*v1alpha1.ReleaseChannel]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.ReleaseChannel { return &v1alpha1.ReleaseChannel{} },
		Work: r.work,
	}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=releasechannels,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=releasechannels/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=secrets,verbs=get

// SetupWithManager starts the reconciler in a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("releasechannel").
		For(&v1alpha1.ReleaseChannel{}, predicates.Spec()).
		WithOptions(opts).
		Complete(r)
}

func (r *channelReconciler) work(ctx context.Context, s *reconciler.Scope[*v1alpha1.ReleaseChannel]) reconciler.Outcome {
	channel := s.Object
	if channel.Spec.Suspend != nil && *channel.Spec.Suspend {
		return reconciler.Done("Scanning is suspended; the list is kept").WithReason(v1alpha1.ReasonSuspended)
	}
	selection, err := newSelection(&channel.Spec)
	if err != nil {
		return reconciler.Stalled(v1alpha1.ReasonInvalidPolicy, err.Error())
	}
	scanCtx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	result, err := r.scan(scanCtx, s, selection)
	if err != nil {
		scansTotal.WithLabelValues(scanFailure).Inc()
		return scanFailed(err, interval(channel), len(channel.Status.Versions) > 0)
	}
	if result.storeErr != nil {
		scansTotal.WithLabelValues(scanFailure).Inc()
		return summarise(s, selection, result).RequeueIn(retryIn(result.storeErr, interval(channel)))
	}
	scansTotal.WithLabelValues(scanSucceeded).Inc()
	return summarise(s, selection, result).RequeueIn(wait.Jitter(interval(channel), 0.1))
}

// summarise sets the status from the result of a scan.
func summarise(s *reconciler.Scope[*v1alpha1.ReleaseChannel], selection *selection, result *scanResult) reconciler.Outcome {
	status := &s.Object.Status
	now := metav1.NewTime(s.Clock.Now().Truncate(time.Second))
	versions, repushed := result.versions(status.Versions, now)
	if !equality.Semantic.DeepEqual(versions, status.Versions) {
		status.Versions, status.LastChangeTime = versions, &now
	}
	status.LatestVersion = ""
	if len(versions) == 0 {
		return reconciler.Stalled(v1alpha1.ReasonNoVersions, fmt.Sprintf(
			"no tag of %s is a version that matches the channel (%s)", s.Object.Spec.ImageRepository, selection.describe()))
	}
	status.LatestVersion = versions[0].Version
	if result.storeErr != nil {
		return reconciler.Done(fmt.Sprintf("Newest version is %s; images of the store that are not known could not be read: %v", status.LatestVersion, result.storeErr)).
			WithReason(v1alpha1.ReasonStoreScanFailed)
	}
	if repushed != "" {
		return reconciler.Done(fmt.Sprintf("tag %s was pushed again with other content; the digest first seen is kept", repushed)).
			WithReason(v1alpha1.ReasonDigestChanged)
	}
	if len(result.missing) > 0 {
		return reconciler.Done(fmt.Sprintf("Newest version is %s; not in the repository: %v", status.LatestVersion, result.missing))
	}
	return reconciler.Done("Newest version is " + status.LatestVersion)
}

// scanFailed returns the outcome of a failed scan. known reports whether the channel has versions
// of an earlier scan, which are kept.
func scanFailed(err error, interval time.Duration, known bool) reconciler.Outcome {
	delay := retryIn(err, interval)
	var unreadable *secretError
	if errors.As(err, &unreadable) {
		return reconciler.Failing(v1alpha1.ReasonPullSecretUnreadable, unreadable.Error(), delay)
	}
	list := "the channel has no versions yet"
	if known {
		list = "the list of the last successful scan is kept"
	}
	if errors.Is(err, registry.ErrInvalidConfig) {
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, err.Error()+"; "+list).RequeueIn(delay)
	}
	return reconciler.Failing(v1alpha1.ReasonScanFailed, err.Error()+"; "+list, delay)
}

// retryIn returns when a failed scan is retried.
func retryIn(err error, interval time.Duration) time.Duration {
	return max(min(interval, retryInterval), registry.RetryAfter(err))
}

func interval(c *v1alpha1.ReleaseChannel) time.Duration {
	if c.Spec.Interval != nil {
		return c.Spec.Interval.Duration
	}
	return defaultInterval
}
