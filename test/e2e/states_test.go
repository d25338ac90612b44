package e2e_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/recording"
)

// deployment returns a function that reads the Deployment, for Eventually and Consistently.
func (t *tenant) deployment(name string) func(context.Context) (*v1alpha1.Deployment, error) {
	return func(ctx context.Context) (*v1alpha1.Deployment, error) {
		d := &v1alpha1.Deployment{}
		return d, world.API.Get(ctx, client.ObjectKey{Namespace: t.name, Name: name}, d)
	}
}

// environment returns a function that reads the production Environment of a deployment.
func (t *tenant) environment(deployment string) func(context.Context) (*v1alpha1.Environment, error) {
	return func(ctx context.Context) (*v1alpha1.Environment, error) {
		e := &v1alpha1.Environment{}
		return e, world.API.Get(ctx, client.ObjectKey{Namespace: t.name, Name: v1alpha1.ProductionName(deployment)}, e)
	}
}

// channel reads the tenant's ReleaseChannel.
func (t *tenant) channel(ctx context.Context) (*v1alpha1.ReleaseChannel, error) {
	c := &v1alpha1.ReleaseChannel{}
	return c, world.API.Get(ctx, client.ObjectKey{Name: t.name}, c)
}

// haveLatest matches a channel with a newest version.
func haveLatest(version string) types.GomegaMatcher {
	return HaveField("Status.LatestVersion", version)
}

// run matches a deployment whose production environment completely runs a version.
func run(version string) types.GomegaMatcher {
	return And(HaveField("Status.CurrentVersion", version), beReady())
}

// beReady matches an object that is Ready in its current generation.
func beReady() types.GomegaMatcher {
	return gcustom.MakeMatcher(func(obj v1alpha1.Object) (bool, error) {
		ready := meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == obj.GetGeneration(), nil
	}).WithTemplate("Expected the object {{.To}} be Ready; its conditions are\n{{format .Actual.Common.Conditions 1}}")
}

// beStalled matches an object that is Stalled for a reason.
func beStalled(reason string) types.GomegaMatcher {
	return gcustom.MakeMatcher(func(obj v1alpha1.Object) (bool, error) {
		stalled := meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionStalled)
		return stalled != nil && stalled.Reason == reason && stalled.ObservedGeneration == obj.GetGeneration(), nil
	}).WithTemplate("Expected the object {{.To}} be Stalled because of {{.Data}}; its conditions are\n{{format .Actual.Common.Conditions 1}}").
		WithTemplateData(reason)
}

// message returns the message of the Ready condition.
func message(obj v1alpha1.Object) string {
	if ready := meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Message
	}
	return ""
}

// readyReason returns the reason of the Ready condition.
func readyReason(obj v1alpha1.Object) string {
	if ready := meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

// workload returns a function that describes each ReplicaSet of a deployment. The result changes only if a pod template
// changes.
func (t *tenant) workload(deployment string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list := &appsv1.ReplicaSetList{}
		if err := t.all(ctx, list, client.MatchingLabels{v1alpha1.LabelDeployment: deployment}); err != nil {
			return nil, err
		}
		var lines []string
		for i := range list.Items {
			rs := &list.Items[i]
			lines = append(lines, fmt.Sprintf("%s, revision %s: %d pods of %s", rs.Name,
				rs.Annotations["deployment.kubernetes.io/revision"], ptr.Deref(rs.Spec.Replicas, 1), recording.Tag(rs.Spec.Template.Spec)))
		}
		return lines, nil
	}
}

// pods returns the pods of a deployment that are not terminating.
func (t *tenant) pods(ctx context.Context, deployment string) []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(t.all(ctx, list, client.MatchingLabels{v1alpha1.LabelDeployment: deployment})).To(Succeed())
	var pods []corev1.Pod
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			pods = append(pods, list.Items[i])
		}
	}
	return pods
}

// podNames returns the names of the pods of a deployment, including terminating ones.
func (t *tenant) podNames(ctx context.Context, deployment string) ([]string, error) {
	list := &corev1.PodList{}
	err := t.all(ctx, list, client.MatchingLabels{v1alpha1.LabelDeployment: deployment})
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, err
}

// address returns the URL of the API Service of a deployment's production environment. kube-proxy also routes its cluster IP
// on this machine.
func (t *tenant) address(ctx context.Context, deployment string) string {
	GinkgoHelper()
	services := &corev1.ServiceList{}
	Expect(t.all(ctx, services, client.MatchingLabels{
		v1alpha1.LabelEnvironment: v1alpha1.ProductionName(deployment), "app.kubernetes.io/component": "api",
	})).To(Succeed())
	Expect(services.Items).To(HaveLen(1))
	for _, port := range services.Items[0].Spec.Ports {
		if port.Name == "http" {
			return fmt.Sprintf("http://%s:%d", services.Items[0].Spec.ClusterIP, port.Port)
		}
	}
	Expect(services.Items[0].Spec.Ports).To(BeEmpty(), "no port is named http")
	return ""
}
