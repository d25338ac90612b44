package controllers_test

import (
	"context"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// ask answers a request for the metadata of a pod.
func (w *world) ask(_ context.Context, pod *corev1.Pod, _ string) (int, []byte, error) {
	for _, arg := range pod.Spec.InitContainers[0].Args {
		if commit, ok := strings.CutPrefix(arg, "--commit="); ok && w.uncompiled[commit] {
			return http.StatusInternalServerError, []byte(`{"error":"Error: Compile errors:\norders.yml: bad\n    at f (/cube/x.js:1:1)"}`), nil
		}
	}
	return http.StatusOK, []byte(`{"cubes":[]}`), nil
}

// updatePods simulates the pods of a workload whose template has a readiness gate, one pod per
// template, and reports whether the pod of the current template is ready. Then the pods of
// earlier templates are deleted.
func (w *world) updatePods(d *appsv1.Deployment) bool {
	w.t.Helper()
	template := d.Spec.Template.Labels[v1alpha1.LabelWarmUp]
	if template == "" {
		return true
	}
	ready, exists := ptr.Deref(d.Spec.Replicas, 1) == 0, false
	var others []client.Object
	for _, obj := range w.all(&corev1.PodList{}) {
		pod, _ := obj.(*corev1.Pod)
		switch {
		case pod.Labels[v1alpha1.LabelEnvironment] != d.Labels[v1alpha1.LabelEnvironment]:
		case pod.Labels[v1alpha1.LabelWarmUp] == template && !ready:
			c := engine.Compiled(pod)
			exists, ready = true, c != nil && c.Status == corev1.ConditionTrue
		default:
			others = append(others, pod)
		}
	}
	if !exists && !ready {
		w.startPod(d, template)
	}
	for i := 0; ready && i < len(others); i++ {
		w.acted++
		if err := w.api.Delete(w.ctx, others[i], client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
	return ready
}

// startPod creates a pod whose containers are ready at once.
func (w *world) startPod(d *appsv1.Deployment, template string) {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + template, Labels: d.Spec.Template.Labels},
		Spec:       d.Spec.Template.Spec,
	}
	w.create(pod)
	before := pod.DeepCopy()
	pod.Status.PodIP = "10.0.0.7"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	w.patchStatus(before, pod)
}
