package chart_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// identities returns the UIDs of the objects of a chart in the cluster, by kind and name.
func (c *cluster) identities(t *testing.T, all objects) map[string]types.UID {
	t.Helper()
	found := map[string]types.UID{}
	for _, object := range withoutHooks(all) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
			t.Fatal(err)
		}
		found[object.GetKind()+" "+object.GetName()] = live.GetUID()
	}
	return found
}

// templates returns the pod templates of the components in the cluster.
func (c *cluster) templates(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	found := map[string]corev1.PodTemplateSpec{}
	for _, component := range components {
		found[component] = c.deployed(t, "quoin-"+component).Spec.Template
	}
	return found
}

// TestKustomizeObjectsAreTakenOver: a release takes over the objects of the kustomize tree; no object is replaced and no pod
// restarts. It can be upgraded, and the kustomize tree takes the objects back.
func TestKustomizeObjectsAreTakenOver(t *testing.T) {
	c := newCluster(t)
	kustomize := filepath.Join(root, "config", "default")
	c.kubectl(t, "apply", "--server-side", "-k", kustomize)
	adopt := []string{"--set", "kustomizeSelectors=true"}
	all := render(t, adopt...)
	identities, templates := c.identities(t, all), c.templates(t)

	// Without the value, the installation fails and names the missing value, before it changes anything.
	install := []string{"install", releaseName, chartFolder, "--take-ownership", "--kubeconfig", c.kubeconfig, "--namespace", releaseNamespace}
	if _, err := helm(t, install...); err == nil || !strings.Contains(err.Error(), "set kustomizeSelectors=true if kustomize created the Deployment") {
		t.Errorf("without kustomizeSelectors: %v", err)
	}
	mustHelm(t, append(install, adopt...)...)
	if diff := cmp.Diff(identities, c.identities(t, all)); diff != "" {
		t.Errorf("objects are replaced:\n%s", diff)
	}
	if diff := cmp.Diff(templates, c.templates(t)); diff != "" {
		t.Errorf("pods restart:\n%s", diff)
	}
	controller := c.deployed(t, "quoin-controller")
	if controller.Labels["app.kubernetes.io/managed-by"] != "Helm" || controller.Annotations["meta.helm.sh/release-name"] != releaseName {
		t.Errorf("labels %v, annotations %v", controller.Labels, controller.Annotations)
	}
	c.helm(t, append([]string{"upgrade", releaseName, chartFolder, "--set", "controller.replicas=2,gateway.strategy.type=Recreate"}, adopt...)...)
	if got := *c.deployed(t, "quoin-controller").Spec.Replicas; got != 2 {
		t.Errorf("after an upgrade: %d replicas", got)
	}
	c.helm(t, append([]string{"upgrade", releaseName, chartFolder}, adopt...)...)

	c.leaveHelm(t)
	c.kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", kustomize)
	if diff := cmp.Diff(identities, c.identities(t, all)); diff != "" {
		t.Errorf("back to kustomize, objects are replaced:\n%s", diff)
	}
	if diff := cmp.Diff(templates, c.templates(t)); diff != "" {
		t.Errorf("back to kustomize, pods restart:\n%s", diff)
	}
	c.wantNoHelm(t, all)
}

// TestReleaseIsTakenOverByKustomize: with the selectors of the release, the kustomize tree takes over its objects.
func TestReleaseIsTakenOverByKustomize(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace)
	c.helm(t, "install", releaseName, chartFolder)
	all := render(t)
	identities, templates := c.identities(t, all), c.templates(t)
	c.leaveHelm(t)
	for range 2 {
		c.kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", "testdata/from-helm")
	}
	if diff := cmp.Diff(identities, c.identities(t, all)); diff != "" {
		t.Errorf("objects are replaced:\n%s", diff)
	}
	if diff := cmp.Diff(templates, c.templates(t)); diff != "" {
		t.Errorf("pods restart:\n%s", diff)
	}
	c.wantNoHelm(t, all)
	for _, component := range components {
		var services corev1.ServiceList
		if err := c.List(t.Context(), &services, client.InNamespace(releaseNamespace), client.MatchingLabels{"app.kubernetes.io/component": component}); err != nil {
			t.Fatal(err)
		}
		pods := c.deployed(t, "quoin-"+component).Spec.Template.Labels
		for _, service := range services.Items {
			for label, value := range service.Spec.Selector {
				if pods[label] != value {
					t.Errorf("Service %s selects %s=%s, the pods have %q", service.Name, label, value, pods[label])
				}
			}
		}
	}
}

// leaveHelm removes what Helm stored of the release, as docs/operations/upgrade.md shows.
func (c *cluster) leaveHelm(t *testing.T) {
	t.Helper()
	manifest := c.helm(t, "get", "manifest", releaseName)
	file := filepath.Join(t.TempDir(), "release.yaml")
	writeFile(t, file, manifest)
	c.kubectl(t, "annotate", "-f", file, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-", "helm.sh/resource-policy-")
	c.kubectl(t, "label", "-f", file, "helm.sh/chart-", "app.kubernetes.io/managed-by-")
	c.kubectl(t, "delete", "secret", "--namespace", releaseNamespace, "--selector", "owner=helm,name="+releaseName)
}

// wantNoHelm checks that no object has labels and annotations of Helm, and that there is no release.
func (c *cluster) wantNoHelm(t *testing.T, all objects) {
	t.Helper()
	for _, object := range withoutHooks(all) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
			t.Fatal(err)
		}
		for _, values := range []map[string]string{live.GetLabels(), live.GetAnnotations()} {
			for name, value := range values {
				if strings.Contains(name, "helm.sh") || value == "Helm" {
					t.Errorf("%s %s has %s=%s", object.GetKind(), object.GetName(), name, value)
				}
			}
		}
	}
	if left := strings.TrimSpace(c.helm(t, "list", "--all", "--short")); left != "" {
		t.Errorf("releases: %s", left)
	}
}

// TestAutoscalingKeepsTheNumberOfPods: enabling it, and upgrades while it is enabled, do not scale down to one pod.
func TestAutoscalingKeepsTheNumberOfPods(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace)
	replicas := func(want int32) {
		t.Helper()
		if got := *c.deployed(t, "quoin-gateway").Spec.Replicas; got != want {
			t.Errorf("%d replicas, want %d", got, want)
		}
	}
	scaled := []string{"upgrade", releaseName, chartFolder, "--set", "gateway.autoscaling.enabled=true,gateway.autoscaling.minReplicas=2"}
	c.helm(t, "install", releaseName, chartFolder, "--set", "gateway.replicas=4")
	c.helm(t, scaled...)
	replicas(4)
	c.kubectl(t, "scale", "deployment.apps/quoin-gateway", "--replicas=7", "--namespace", releaseNamespace)
	c.helm(t, scaled...)
	replicas(7)
	c.kubectl(t, "scale", "deployment.apps/quoin-gateway", "--replicas=1", "--namespace", releaseNamespace)
	c.helm(t, scaled...)
	replicas(2)
	c.helm(t, "upgrade", releaseName, chartFolder, "--set", "gateway.replicas=3")
	replicas(3)
	list := &appsv1.DeploymentList{}
	if err := c.List(t.Context(), list, client.InNamespace(releaseNamespace)); err != nil || len(list.Items) != len(components) {
		t.Errorf("%d Deployments: %v", len(list.Items), err)
	}
}
