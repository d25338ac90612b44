package engine

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// refreshDeployment is the one pod that builds pre-aggregations in the background.
//
// It is recreated rather than surged: two builders would do the same work against the
// warehouse, and during an upgrade in two versions of it. Nobody waits for the refresh
// worker, so the pause does no harm; what it was building is built by the next one.
//
// It has no readiness probe, because nobody connects to it.
func (in Inputs) refreshDeployment() *appsv1.Deployment {
	pod := in.serverPod(ComponentRefresh, true)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](shutdownSeconds + 5)
	d := in.deployment(RefreshName(in.Environment), ComponentRefresh, pod)
	d.Spec.Replicas = ptr.To[int32](1)
	d.Spec.ProgressDeadlineSeconds = ptr.To(in.ProgressDeadlineSeconds)
	d.Spec.MinReadySeconds = minReadySeconds
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	return d
}
