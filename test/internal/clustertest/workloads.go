package clustertest

import (
	"context"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// The keys that sign tokens for the data API of a deployment: those of its pods, and those of the gateway.
const APISecret, MetadataSecret = "the secret that the pods know", "of the gateway"

// Deploy creates a deployment with a number and its production environment, which has the next number and credentials, as the
// controllers do that a suite does not run.
func (c *Cluster) Deploy(ctx context.Context, account, name string, number int) error {
	meta := func(name string, number int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: account, Name: name, Labels: map[string]string{v1alpha1.LabelID: strconv.Itoa(number)}}
	}
	production := &v1alpha1.Environment{
		ObjectMeta: meta(v1alpha1.ProductionName(name), number+1),
		Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: name}, Type: v1alpha1.EnvironmentProduction, Image: "registry.example.com/cube:v1", Version: "1.0.0",
		},
	}
	secret := func(name, key, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: name}, Data: map[string][]byte{key: []byte(value)}}
	}
	err := c.create(ctx,
		&v1alpha1.Deployment{
			ObjectMeta: meta(name, number),
			Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
		},
		secret(engine.CredentialsName(production.Name), engine.KeyAPISecret, APISecret),
		secret(engine.GatewayCredentialsName(production.Name), engine.KeyMetadata, MetadataSecret),
		production,
	)
	if err != nil {
		return err
	}
	before := production.DeepCopy()
	production.Status.CredentialsSecret = engine.CredentialsName(production.Name)
	return c.Client.Status().Patch(ctx, production, client.MergeFrom(before))
}

// KeepWorkloadsReady calls MakeWorkloadsReady until the context ends.
func KeepWorkloadsReady(ctx context.Context, c client.Client, before func(context.Context, *appsv1.Deployment) error) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		_ = MakeWorkloadsReady(ctx, c, before) // the next round tries again
	}
}

// CollectSecrets deletes the Secrets of environments that no longer exist, as the garbage collector of Kubernetes does, until
// the context ends.
func CollectSecrets(ctx context.Context, c client.Client) {
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		secrets, environments := &metav1.PartialObjectMetadataList{}, &metav1.PartialObjectMetadataList{}
		secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		environments.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EnvironmentList"))
		// The secrets first: those of an environment that is created in between are not among them.
		if c.List(ctx, secrets) != nil || c.List(ctx, environments) != nil {
			continue // the next round tries again
		}
		exists := map[types.UID]bool{}
		for i := range environments.Items {
			exists[environments.Items[i].UID] = true
		}
		for i := range secrets.Items {
			secret := &secrets.Items[i]
			if owner := metav1.GetControllerOf(secret); owner != nil && owner.Kind == "Environment" && !exists[owner.UID] {
				_ = c.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
			}
		}
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
