package environment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// childKind is a kind of the objects that an environment consists of.
type childKind struct {
	object client.Object
	list   client.ObjectList
}

func childKinds() []childKind {
	return []childKind{
		{&appsv1.Deployment{}, &appsv1.DeploymentList{}},
		{&appsv1.StatefulSet{}, &appsv1.StatefulSetList{}},
		{&corev1.Service{}, &corev1.ServiceList{}},
		{&corev1.ServiceAccount{}, &corev1.ServiceAccountList{}},
		{&policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{}},
		{&networkingv1.NetworkPolicy{}, &networkingv1.NetworkPolicyList{}},
	}
}

// credentials ensures that the environment's secrets exist.
func (r *environmentReconciler) credentials(ctx context.Context, s *scope, in engine.Inputs) error {
	env, created := s.Object, false
	r.states.update(env, func(state *rolloutState) { created = state.secretsCreated })
	if env.Status.CredentialsSecret == "" && !created {
		if err := r.createCredentials(ctx, s, in); err != nil {
			return err
		}
	}
	env.Status.CredentialsSecret = engine.CredentialsName(env.Name)
	return nil
}

// errEarlierSecret means that a secret belongs to an earlier environment of the same name, with which it is being deleted.
var errEarlierSecret = errors.New("it belongs to an earlier environment of the same name")

// createCredentials creates the environment's secrets. Existing secrets are kept, and their values never read. The error is
// errEarlierSecret if one is not to be kept.
func (r *environmentReconciler) createCredentials(ctx context.Context, s *scope, in engine.Inputs) error {
	secrets, err := engine.NewCredentials(in, rand.Reader)
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if err := controllerutil.SetControllerReference(s.Object, secret, s.Scheme()); err != nil {
			return err
		}
		err := s.Client.Client.Create(ctx, secret)
		if apierrors.IsAlreadyExists(err) {
			err = checkOwner(ctx, s, secret.Name)
		}
		if err != nil {
			return fmt.Errorf("create secret %q: %w", secret.Name, err)
		}
	}
	r.states.update(s.Object, func(state *rolloutState) { state.secretsCreated = true })
	return nil
}

// annotationRestarted is the annotation of pod templates that kubectl rollout restart sets.
const annotationRestarted = "kubectl.kubernetes.io/restartedAt"

// recreateCredentials creates those of the environment's secrets that were deleted. It returns an outcome if the one of the pods
// was, or for an error: running pods have its deleted values, with which they reject the tokens that the gateway accepts, so they
// are restarted. o is the outcome without that.
func (r *environmentReconciler) recreateCredentials(ctx context.Context, s *scope, in engine.Inputs, o reconciler.Outcome) *reconciler.Outcome {
	secrets, err := engine.NewCredentials(in, rand.Reader)
	if err != nil {
		return failed(err)
	}
	ofPods := secrets[0]
	// An error is not reported: a webhook may reject dry runs, and creating the secret has the other ones.
	isMissing := s.Client.Client.Create(ctx, ofPods, client.DryRunAll) == nil
	if isMissing {
		// Before the secret is created: a controller that is stopped in between finds it missing, and continues.
		if err := r.restart(ctx, s); err != nil {
			return failed(err)
		}
	}
	if err := r.createCredentials(ctx, s, in); err != nil {
		return failed(err)
	}
	if !isMissing {
		return nil
	}
	o = o.Progressing(v1alpha1.ReasonWorkloadsNotReady).WithDetail(fmt.Sprintf(
		"secret %q was deleted and has been created again, with new values: the pods are restarted", ofPods.Name)).RequeueIn(reportInterval)
	return &o
}

// restart restarts the pods of the environment that use its credentials: those of the store do not.
func (r *environmentReconciler) restart(ctx context.Context, s *scope) error {
	workloads, err := r.workloads(ctx, s)
	if err != nil {
		return err
	}
	for _, w := range workloads {
		d, ok := w.(*appsv1.Deployment)
		if !ok {
			continue
		}
		restarted := d.DeepCopy()
		if restarted.Spec.Template.Annotations == nil {
			restarted.Spec.Template.Annotations = map[string]string{}
		}
		restarted.Spec.Template.Annotations[annotationRestarted] = s.Clock.Now().UTC().Format(time.RFC3339)
		if err := s.Patch(ctx, restarted, client.MergeFrom(d)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("restart the pods of %q: %w", d.Name, err)
		}
	}
	return nil
}

// checkOwner returns errEarlierSecret if a secret that exists belongs to an earlier environment of the same name: it is
// garbage-collected in a moment. Without the permission to read it, it is taken for that of this environment.
func checkOwner(ctx context.Context, s *scope, name string) error {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := s.Live().Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return errEarlierSecret // it was deleted since
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return err
	}
	if kube.IsOfEarlier(secret, "Environment", s.Object) {
		return errEarlierSecret
	}
	return nil
}

// apply applies the environment's objects and deletes those that are no longer part of it. It
// returns the current workloads.
func (r *environmentReconciler) apply(ctx context.Context, s *scope, in engine.Inputs) ([]client.Object, error) {
	var workloads []client.Object
	rendered := map[string]bool{}
	for _, desired := range engine.Render(in) {
		rendered[identity(desired)] = true
		if err := controllerutil.SetControllerReference(s.Object, desired, s.Scheme()); err != nil {
			return nil, err
		}
		if err := keepTemplate(ctx, s, desired); err != nil {
			return nil, err
		}
		live, _, err := kube.Apply(ctx, s.Client, desired)
		if err != nil {
			return nil, err
		}
		switch live.(type) {
		case *appsv1.Deployment, *appsv1.StatefulSet:
			workloads = append(workloads, live)
		}
	}
	return workloads, r.prune(ctx, s, rendered)
}

// keepTemplate keeps the pod template of a workload that another revision of the renderer has
// rendered from the same inputs, so that a new release of Quoin restarts no pods. The new
// rendering takes effect with the next change of the inputs.
func keepTemplate(ctx context.Context, s *scope, desired client.Object) error {
	live, _ := desired.DeepCopyObject().(client.Object)
	switch desired.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet:
	default:
		return nil
	}
	if err := s.Get(ctx, client.ObjectKeyFromObject(desired), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	have, want := live.GetAnnotations(), desired.GetAnnotations()
	if have[v1alpha1.AnnotationInputs] != want[v1alpha1.AnnotationInputs] ||
		have[v1alpha1.AnnotationRevision] == want[v1alpha1.AnnotationRevision] {
		return nil
	}
	want[v1alpha1.AnnotationRevision] = have[v1alpha1.AnnotationRevision]
	switch d := desired.(type) {
	case *appsv1.Deployment:
		if l, ok := live.(*appsv1.Deployment); ok {
			l.Spec.Template.DeepCopyInto(&d.Spec.Template)
		}
	case *appsv1.StatefulSet:
		if l, ok := live.(*appsv1.StatefulSet); ok {
			l.Spec.Template.DeepCopyInto(&d.Spec.Template)
		}
	}
	return nil
}

// prune deletes objects of the environment that are no longer part of it.
func (r *environmentReconciler) prune(ctx context.Context, s *scope, rendered map[string]bool) error {
	for _, kind := range childKinds() {
		children, err := r.children(ctx, s, kind.list)
		if err != nil {
			return err
		}
		for _, child := range children {
			if rendered[identity(child)] || !child.GetDeletionTimestamp().IsZero() {
				continue
			}
			uid := child.GetUID()
			err := s.Delete(ctx, child, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("remove object of the environment: %w", err)
			}
		}
	}
	return nil
}

// children returns the objects of the environment of the kind of a list. They must not be modified.
func (r *environmentReconciler) children(ctx context.Context, s *scope, list client.ObjectList) ([]client.Object, error) {
	var byEnvironment client.ListOption = client.MatchingLabels{v1alpha1.LabelEnvironment: s.Object.Name}
	if r.Indexed {
		byEnvironment = client.MatchingFields{indexEnvironment: s.Object.Name}
	}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace), byEnvironment, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list objects of the environment: %w", err)
	}
	var children []client.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if child, ok := item.(client.Object); ok && metav1.IsControlledBy(child, s.Object) {
			children = append(children, child)
		}
		return nil
	})
	return children, err
}

// identity identifies an object by its Go type, because objects of the cache have no kind.
func identity(obj client.Object) string { return fmt.Sprintf("%T/%s", obj, obj.GetName()) }
