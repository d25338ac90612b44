// Package warmup requests the metadata of each new API pod, which makes the pod compile its data
// model, and opens the pod's readiness gate afterwards: a model that does not compile never
// replaces one that does. See docs/decisions/0024-warm-up.md.
package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-warmup"

const (
	// retryInterval applies to a pod that did not answer, or reported for the first time that its
	// model does not compile, and while the Secret is missing.
	retryInterval = 2 * time.Second
	// confirmedInterval applies when the problem is confirmed: it may be solved before the pod is
	// replaced.
	confirmedInterval = 30 * time.Second
	// compilingInterval applies after a request that timed out: the pod continues to compile,
	// and other pods had a chance in between.
	compilingInterval = 100 * time.Millisecond
)

// errCompiling means that the pod accepted the request and has not answered yet.
var errCompiling = errors.New("has not answered yet")

// Ask requests the metadata of a pod with a token, and returns the status and the beginning of
// the body. The error wraps errCompiling if the pod accepted the request but did not answer.
type Ask func(ctx context.Context, pod *corev1.Pod, token string) (status int, body []byte, err error)

// Reconciler opens the readiness gates of API pods.
type Reconciler struct {
	client *kube.Client
	clock  clock.PassiveClock
	ask    Ask
	isOff  bool
}

// Options configure the reconciler.
type Options struct {
	// Off opens every gate without a request.
	Off bool
	// Ask requests the metadata of a pod; over HTTP when nil.
	Ask Ask
}

// New returns the reconciler of API pods.
func New(c *kube.Client, clk clock.PassiveClock, o Options) *Reconciler {
	r := &Reconciler{client: c.As(FieldManager), clock: clk, ask: o.Ask, isOff: o.Off}
	if r.ask == nil {
		r.ask = overHTTP(newHTTPClient())
	}
	return r
}

// Reconcile requests the metadata of a running pod whose gate is closed.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isGated(pod) {
		return ctrl.Result{}, nil
	}
	if r.isOff {
		return ctrl.Result{}, r.setCondition(ctx, pod, r.clock.Now(), engine.WarmUpOff, "The controller was started with --warm-up=false")
	}
	if !isListening(pod) {
		return ctrl.Result{}, nil // its status will change
	}
	requested := r.clock.Now()
	reason, message, err := r.check(ctx, pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	if reason == engine.WarmUpCompiling && r.clock.Since(compilingSince(pod, requested)) >= engine.CompileLimit {
		reason, message = engine.WarmUpTooSlow, fmt.Sprintf("The data model was not compiled within %s", engine.CompileLimit)
	}
	return r.record(ctx, pod, requested, reason, message)
}

// record sets the condition of the pod and returns when to request again. That a model does not
// compile is confirmed by the second answer in a row: the first may have a temporary cause.
// Afterwards only another answer about the model changes the condition.
func (r *Reconciler) record(ctx context.Context, pod *corev1.Pod, requested time.Time, reason, message string) (ctrl.Result, error) {
	previous := engine.Compiled(pod)
	if previous == nil {
		previous = &corev1.PodCondition{}
	}
	isConfirmed := previous.Reason == engine.WarmUpBroken || previous.Reason == engine.WarmUpTooSlow
	interval := confirmedInterval
	switch reason {
	case engine.WarmUpCompiled, engine.WarmUpNotAllowed:
		interval = 0
	case engine.WarmUpCompiling, engine.WarmUpNoAnswer:
		if isConfirmed {
			return ctrl.Result{RequeueAfter: confirmedInterval}, nil
		}
		if interval = retryInterval; reason == engine.WarmUpCompiling {
			interval = compilingInterval
		}
	case engine.WarmUpMissing:
		interval = retryInterval
	case engine.WarmUpBroken:
		if !isConfirmed && !strings.HasPrefix(previous.Message, unconfirmed) {
			reason, message, interval = engine.WarmUpNoAnswer, unconfirmed+message, retryInterval
		}
	}
	return ctrl.Result{RequeueAfter: interval}, r.setCondition(ctx, pod, requested, reason, message)
}

// unconfirmed is the prefix of the message until the problem is confirmed.
const unconfirmed = "Not confirmed yet: "

// check requests the pod's metadata and returns the reason and message for the condition.
func (r *Reconciler) check(ctx context.Context, pod *corev1.Pod) (reason, message string, err error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: engine.CredentialsName(pod.Labels[v1alpha1.LabelEnvironment])}
	err = r.client.Live().Get(ctx, key, secret)
	switch {
	case apierrors.IsForbidden(err):
		return engine.WarmUpUnreadable, fmt.Sprintf(
			"secret %q may not be read by the controller, so pods cannot be asked whether their data model compiles; bind ClusterRole quoin-account to it with a RoleBinding in namespace %q",
			key.Name, key.Namespace), nil
	case apierrors.IsNotFound(err):
		return engine.WarmUpMissing, fmt.Sprintf("secret %q does not exist", key.Name), nil
	case err != nil:
		return "", "", fmt.Errorf("read secret %q: %w", key.Name, err)
	}
	signing := string(secret.Data[engine.KeyAPISecret])
	token, err := engine.WarmUpToken(signing, r.clock.Now())
	if err != nil {
		return "", "", err
	}
	status, body, failure := r.ask(ctx, pod, token)
	reason, message = evaluate(status, body, failure, token, signing, string(secret.Data[engine.KeySQLPassword]))
	return reason, message, nil
}

// evaluate returns the reason and message of a response, without the secrets in it.
func evaluate(status int, body []byte, failure error, secrets ...string) (reason, message string) {
	switch {
	case errors.Is(failure, errCompiling):
		return engine.WarmUpCompiling, "The pod compiles its data model"
	case failure != nil:
		return engine.WarmUpNoAnswer, "The pod does not answer on its port"
	}
	return engine.ReadMeta(status, body, secrets...)
}

// isGated reports whether a pod has a closed readiness gate of Quoin.
func isGated(pod *corev1.Pod) bool {
	gated := slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == v1alpha1.PodModelCompiled })
	c := engine.Compiled(pod)
	return gated && pod.DeletionTimestamp.IsZero() && (c == nil || c.Status != corev1.ConditionTrue)
}

// isListening reports whether the pod's containers are ready and it has an address.
func isListening(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue
	})
}

// compilingSince returns the time of the first request. It is stored in the condition, so that
// it survives a restart of the controller. There is no request while the Secret cannot be read.
func compilingSince(pod *corev1.Pod, requested time.Time) time.Time {
	if c := engine.Compiled(pod); c != nil && !isWithoutSecret(c) {
		return c.LastTransitionTime.Time
	}
	return requested
}

// isWithoutSecret reports whether a condition says that the pod gets no request, because there is no Secret for the token.
func isWithoutSecret(c *corev1.PodCondition) bool {
	return c.Reason == engine.WarmUpUnreadable || c.Reason == engine.WarmUpMissing
}

// setCondition patches the pod's condition if it has changed. The patch merges conditions by
// type, so that those of the kubelet are kept.
func (r *Reconciler) setCondition(ctx context.Context, pod *corev1.Pod, requested time.Time, reason, message string) error {
	condition := corev1.PodCondition{
		Type: v1alpha1.PodModelCompiled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(requested.Truncate(time.Second)),
	}
	switch reason {
	case engine.WarmUpCompiled, engine.WarmUpNotAllowed, engine.WarmUpOff:
		condition.Status, condition.LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(r.clock.Now().Truncate(time.Second))
	}
	changed := pod.DeepCopy()
	previous := engine.Compiled(changed)
	switch {
	case previous == nil:
		changed.Status.Conditions = append(changed.Status.Conditions, condition)
	case previous.Status == condition.Status && previous.Reason == reason && previous.Message == message:
		return nil
	default:
		if previous.Status == condition.Status && !isWithoutSecret(previous) {
			condition.LastTransitionTime = previous.LastTransitionTime
		}
		*previous = condition
	}
	status := r.client.Status()
	if condition.Status == corev1.ConditionTrue {
		// Not tracked: the pod is not read again, so the record of the write would remain.
		status = r.client.Client.Status()
	}
	if err := status.Patch(ctx, changed, client.StrategicMergeFrom(pod)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch condition of pod %q: %w", pod.Name, err)
	}
	return nil
}
