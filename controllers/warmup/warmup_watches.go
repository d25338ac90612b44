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
	"github.com/quoin-dev/quoin/internal/fairqueue"
)

// maxConcurrentRequests limits concurrent requests to pods. The workers mostly wait, so it does
// not depend on the number of processors.
const maxConcurrentRequests = 32

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// SetupWithManager starts the reconciler in a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	fairqueue.Workers(&opts, maxConcurrentRequests)
	return ctrl.NewControllerManagedBy(mgr).
		Named("warmup").
		For(&corev1.Pod{}, builder.WithPredicates(gated)).
		WithOptions(opts).
		Complete(r)
}

// gated selects pods with a closed gate.
var gated = predicate.NewPredicateFuncs(func(obj client.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	return ok && isGated(pod)
})

// CacheOptions returns options that limit the cache to pods with a gate, and to the fields of them
// that are used.
func CacheOptions() cache.ByObject {
	selector := labels.NewSelector()
	if exists, err := labels.NewRequirement(v1alpha1.LabelWarmUp, selection.Exists, nil); err == nil {
		selector = selector.Add(*exists)
	}
	return cache.ByObject{Label: selector, Transform: strip}
}

// strip removes the fields of a pod that neither this nor the Environment controller uses.
var strip toolscache.TransformFunc = func(obj any) (any, error) {
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
