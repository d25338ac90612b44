// Package warmup asks each new API pod for its metadata, which makes it compile its data
// model, and opens the pod's readiness gate when it has: a model that does not compile never
// takes the place of one that does. See docs/decisions/0024-warm-up.md.
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
	// soon is the pause before a pod is asked again that did not answer, or said for the first
	// time that its model does not compile.
	soon = 2 * time.Second
	// later is the pause once it is known what is wrong: somebody may mend it, and the pod is
	// there until it is replaced.
	later = 30 * time.Second
	// atOnce is the pause after a question that was not answered in time: the pod goes on
	// compiling, and others have had their turn.
	atOnce = 100 * time.Millisecond
)

// errCompiling says that the pod took the question and has not answered it yet.
var errCompiling = errors.New("has not answered yet")

// Ask sends a pod the question, with a token, and returns the status and the beginning of the
// answer. The error wraps errCompiling when the pod took the question and no more.
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
	// Off opens every gate without asking.
	Off bool
	// Ask asks a pod; over HTTP when nil.
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

// Reconcile asks a pod that runs and whose gate is shut.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !waits(pod) {
		return ctrl.Result{}, nil
	}
	if r.isOff {
		return ctrl.Result{}, r.note(ctx, pod, r.clock.Now(), engine.WarmUpOff, "The controller was started with --warm-up=false")
	}
	if !listens(pod) {
		return ctrl.Result{}, nil // it is looked at again when it does
	}
	asked := r.clock.Now()
	reason, message, err := r.verdict(ctx, pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	if reason == engine.WarmUpCompiling && r.clock.Since(compilingSince(pod, asked)) >= engine.CompileLimit {
		reason, message = engine.WarmUpTooSlow, fmt.Sprintf("The data model was not compiled within %s", engine.CompileLimit)
	}
	return r.record(ctx, pod, asked, reason, message)
}

// record writes down what was learnt and says when the pod is asked again. That a model does
// not compile counts when the pod has said it twice in a row: what it says once may come from
// something that has passed. Once it counts, only an answer about the model takes it back.
func (r *Reconciler) record(ctx context.Context, pod *corev1.Pod, asked time.Time, reason, message string) (ctrl.Result, error) {
	was := engine.Compiled(pod)
	if was == nil {
		was = &corev1.PodCondition{}
	}
	isCertain := was.Reason == engine.WarmUpBroken || was.Reason == engine.WarmUpTooSlow
	pause := later
	switch reason {
	case engine.WarmUpCompiled, engine.WarmUpNotAllowed:
		pause = 0
	case engine.WarmUpCompiling, engine.WarmUpNoAnswer:
		if isCertain {
			return ctrl.Result{RequeueAfter: later}, nil
		}
		if pause = soon; reason == engine.WarmUpCompiling {
			pause = atOnce
		}
	case engine.WarmUpBroken:
		if !isCertain && !strings.HasPrefix(was.Message, unconfirmed) {
			reason, message, pause = engine.WarmUpNoAnswer, unconfirmed+message, soon
		}
	}
	return ctrl.Result{RequeueAfter: pause}, r.note(ctx, pod, asked, reason, message)
}

// unconfirmed begins what a pod has said once.
const unconfirmed = "Asked once: "

// verdict asks the pod.
func (r *Reconciler) verdict(ctx context.Context, pod *corev1.Pod) (reason, message string, err error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: engine.CredentialsName(pod.Labels[v1alpha1.LabelEnvironment])}
	err = r.client.Live().Get(ctx, key, secret)
	switch {
	case apierrors.IsForbidden(err):
		return engine.WarmUpUnreadable, fmt.Sprintf(
			"secret %q may not be read by the controller, so pods cannot be asked whether their data model compiles; bind ClusterRole quoin-account to it with a RoleBinding in namespace %q",
			key.Name, key.Namespace), nil
	case apierrors.IsNotFound(err):
		return engine.WarmUpUnreadable, fmt.Sprintf("secret %q does not exist", key.Name), nil
	case err != nil:
		return "", "", fmt.Errorf("read secret %q: %w", key.Name, err)
	}
	signing := string(secret.Data[engine.KeyAPISecret])
	token, err := engine.WarmUpToken(signing, r.clock.Now())
	if err != nil {
		return "", "", err
	}
	status, body, failure := r.ask(ctx, pod, token)
	reason, message = heard(status, body, failure, token, signing, string(secret.Data[engine.KeySQLPassword]))
	return reason, message, nil
}

// heard says what came of a question; the text of the answer is shown without the secrets.
func heard(status int, body []byte, failure error, secrets ...string) (reason, message string) {
	switch {
	case errors.Is(failure, errCompiling):
		return engine.WarmUpCompiling, "The pod compiles its data model"
	case failure != nil:
		return engine.WarmUpNoAnswer, "The pod does not answer on its port"
	}
	return engine.ReadMeta(status, body, secrets...)
}

// waits tells whether a pod has a gate of ours that is shut.
func waits(pod *corev1.Pod) bool {
	gated := slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == v1alpha1.PodModelCompiled })
	c := engine.Compiled(pod)
	return gated && pod.DeletionTimestamp.IsZero() && (c == nil || c.Status != corev1.ConditionTrue)
}

// listens tells whether the pod's ports are open.
func listens(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue
	})
}

// compilingSince is when the pod was first asked: the condition keeps it, so a new controller
// does not begin to count anew.
func compilingSince(pod *corev1.Pod, asked time.Time) time.Time {
	if c := engine.Compiled(pod); c != nil {
		return c.LastTransitionTime.Time
	}
	return asked
}

// note writes the pod's condition when it says something else than before. The patch merges by
// the type of the condition, so the kubelet's own stay as they are.
func (r *Reconciler) note(ctx context.Context, pod *corev1.Pod, asked time.Time, reason, message string) error {
	condition := corev1.PodCondition{
		Type: v1alpha1.PodModelCompiled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(asked.Truncate(time.Second)),
	}
	switch reason {
	case engine.WarmUpCompiled, engine.WarmUpNotAllowed, engine.WarmUpOff:
		condition.Status, condition.LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(r.clock.Now().Truncate(time.Second))
	}
	changed := pod.DeepCopy()
	was := engine.Compiled(changed)
	switch {
	case was == nil:
		changed.Status.Conditions = append(changed.Status.Conditions, condition)
	case was.Status == condition.Status && was.Reason == reason && was.Message == message:
		return nil
	default:
		if was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
		*was = condition
	}
	if err := r.client.Status().Patch(ctx, changed, client.StrategicMergeFrom(pod)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch condition of pod %q: %w", pod.Name, err)
	}
	return nil
}
