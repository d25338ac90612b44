package warmup

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// asksAtOnce is how many pods are asked at the same time. Most of the time goes by waiting for
// them, so it does not follow the processors of the controller.
const asksAtOnce = 32

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// SetupWithManager starts the reconciler in a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	opts.MaxConcurrentReconciles = asksAtOnce
	return ctrl.NewControllerManagedBy(mgr).
		Named("warmup").
		For(&corev1.Pod{}, builder.WithPredicates(shut)).
		WithOptions(opts).
		Complete(r)
}

// shut leaves out pods that have nothing to wait for.
var shut = predicate.NewPredicateFuncs(func(obj client.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	return ok && waits(pod)
})

// CacheOptions keep in memory only pods with a gate, and of them only what is looked at.
func CacheOptions() cache.ByObject {
	gated := labels.NewSelector()
	if exists, err := labels.NewRequirement(v1alpha1.LabelWarmUp, selection.Exists, nil); err == nil {
		gated = gated.Add(*exists)
	}
	return cache.ByObject{Label: gated, Transform: slim}
}

// slim leaves of a pod what this controller and that of environments look at.
var slim toolscache.TransformFunc = func(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{ReadinessGates: pod.Spec.ReadinessGates},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, Conditions: pod.Status.Conditions},
	}, nil
}
