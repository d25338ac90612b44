package clustertest

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KeepWorkloadsReady calls MakeWorkloadsReady until the context ends.
func KeepWorkloadsReady(ctx context.Context, c client.Client, before func(context.Context, *appsv1.Deployment) error) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		_ = MakeWorkloadsReady(ctx, c, before) // the next round tries again
	}
}

// MakeWorkloadsReady sets the status of all workloads as the controllers and nodes of Kubernetes do when all pods are ready.
// before, if not nil, may change the status of a Deployment before it is written, and leave it as it was with an error.
// Conflicts are left to the next call.
func MakeWorkloadsReady(ctx context.Context, c client.Client, before func(context.Context, *appsv1.Deployment) error) error {
	deployments, sets := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}
	if err := c.List(ctx, deployments); err != nil {
		return err
	}
	if err := c.List(ctx, sets); err != nil {
		return err
	}
	for i := range deployments.Items {
		d, n := &deployments.Items[i], ptr.Deref(deployments.Items[i].Spec.Replicas, 1)
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		if before != nil && before(ctx, d) != nil {
			continue
		}
		if err := updateStatus(ctx, c, d); err != nil {
			return err
		}
	}
	for i := range sets.Items {
		s, n := &sets.Items[i], ptr.Deref(sets.Items[i].Spec.Replicas, 1)
		if s.Status.ObservedGeneration == s.Generation {
			continue
		}
		s.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: s.Generation, Replicas: n, UpdatedReplicas: n, CurrentReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			CurrentRevision: "1", UpdateRevision: "1",
		}
		if err := updateStatus(ctx, c, s); err != nil {
			return err
		}
	}
	return nil
}

func updateStatus(ctx context.Context, c client.Client, workload client.Object) error {
	if err := c.Status().Update(ctx, workload); !apierrors.IsConflict(err) {
		return client.IgnoreNotFound(err)
	}
	return nil
}
