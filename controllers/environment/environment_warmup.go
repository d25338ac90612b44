package environment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// warmUp adds the compilation of the data model by the new pods to the outcome of a rollout.
// isFinal reports whether waiting does not help, so that the outcome is reported at once.
func (r *environmentReconciler) warmUp(ctx context.Context, s *scope, in engine.Inputs, workloads []client.Object, o reconciler.Outcome) (_ reconciler.Outcome, isFinal bool) {
	inputs := gatedInputs(s.Object, workloads)
	if inputs == "" {
		return o, false
	}
	pods := &corev1.PodList{}
	// From the cache, which holds pods with the readiness gate.
	err := s.List(ctx, pods, client.InNamespace(s.Object.Namespace), client.MatchingLabels{
		v1alpha1.LabelEnvironment: s.Object.Name, v1alpha1.LabelWarmUp: inputs,
	})
	if err != nil {
		return reconciler.Failed(err), true
	}
	switch reason, message := engine.WarmUpOf(pods.Items, inputs); reason {
	case engine.WarmUpBroken:
		return reconciler.Stalled(v1alpha1.ReasonModelBroken, "The data model does not compile: "+message), true
	case engine.WarmUpTooSlow:
		return reconciler.Stalled(v1alpha1.ReasonModelBroken, message), true
	case engine.WarmUpUnreadable:
		return reconciler.Stalled(v1alpha1.ReasonCredentialsUnreadable, message), true
	case engine.WarmUpMissing:
		if recreated := r.recreateCredentials(ctx, s, in, o); recreated != nil {
			return *recreated, true
		}
		return o.WithDetail(message), false
	case engine.WarmUpCompiling:
		// Compilation has its own limit, so the deadline of the rollout does not apply.
		return o.Progressing(v1alpha1.ReasonWarmingUp).WithDetail("the data model is being compiled"), false
	case engine.WarmUpNoAnswer:
		return o.WithDetail(message), false
	}
	return o, false
}

// gatedInputs returns the hash of the inputs of the API pods' template; empty without a gate.
func gatedInputs(env *v1alpha1.Environment, workloads []client.Object) string {
	for _, w := range workloads {
		if d, ok := w.(*appsv1.Deployment); ok && d.Name == engine.APIName(env.Name) {
			return d.Spec.Template.Labels[v1alpha1.LabelWarmUp]
		}
	}
	return ""
}

// ofPod maps a pod to its environment.
func ofPod(_ context.Context, pod client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: pod.GetLabels()[v1alpha1.LabelEnvironment]}}}
}

// modelRejected selects updates of pods that change why the data model is not compiled. Success
// shows in the apps/v1 Deployment too.
var modelRejected = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Pod)
		after, ok2 := e.ObjectNew.(*corev1.Pod)
		return ok && ok2 && rejection(before) != rejection(after)
	},
}

// rejection returns why the data model of a pod is not compiled.
func rejection(pod *corev1.Pod) string {
	if c := engine.Compiled(pod); c != nil && c.Status != corev1.ConditionTrue {
		return c.Reason + ": " + c.Message
	}
	return ""
}

var podEvents = handler.EnqueueRequestsFromMapFunc(ofPod)
