package engine

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// refreshDeployment returns the Deployment of the refresh worker, a single pod that builds
// pre-aggregations in the background.
//
// Its strategy is Recreate: two builders would do the same work against the warehouse, and during
// an upgrade with two versions. No request depends on the refresh worker, so the interruption is
// harmless; the new pod repeats unfinished builds.
//
// It has no readiness probe, because no client connects to it.
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
