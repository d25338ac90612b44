package chart_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChartPassesHelmLint(t *testing.T) {
	eachValues(t, func(t *testing.T, args []string) {
		mustHelm(t, append([]string{"lint", "--strict", chartFolder}, args...)...)
	})
}

func TestEveryObjectHasLabelsAndNamespace(t *testing.T) {
	cluster := map[string]bool{
		"CustomResourceDefinition": true, "ClusterRole": true, "ClusterRoleBinding": true, "APIService": true,
		"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true, "ValidatingWebhookConfiguration": true,
	}
	eachValues(t, func(t *testing.T, args []string) {
		names := map[string]bool{}
		for _, object := range render(t, args...) {
			id := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
			if names[id] {
				t.Errorf("duplicate object %s", id)
			}
			names[id] = true
			if strings.HasSuffix(object.GetName(), "-extra") {
				continue
			}
			if (object.GetNamespace() == "") != cluster[object.GetKind()] {
				t.Errorf("%s: namespace %q", id, object.GetNamespace())
			}
			labels := object.GetLabels()
			for label, want := range map[string]string{
				"app.kubernetes.io/name":       "quoin",
				"app.kubernetes.io/instance":   releaseName,
				"app.kubernetes.io/managed-by": "Helm",
				"app.kubernetes.io/part-of":    "quoin",
			} {
				if labels[label] != want {
					t.Errorf("%s: label %s is %q, want %q", id, label, labels[label], want)
				}
			}
			if len(args) > 0 && strings.Contains(args[1], "everything") && labels["team"] != "data" {
				t.Errorf("%s: no label of commonLabels", id)
			}
		}
	})
}

func TestImageReferences(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		set  []string
		want string
	}{
		"appVersion":        {nil, "ghcr.io/quoin-dev/quoin:v0.1.0"},
		"tag":               {[]string{"--set", "image.tag=v9"}, "ghcr.io/quoin-dev/quoin:v9"},
		"digest":            {[]string{"--set", "image.digest=" + digest}, "ghcr.io/quoin-dev/quoin@" + digest},
		"digest before tag": {[]string{"--set", "image.tag=v9,image.digest=" + digest}, "ghcr.io/quoin-dev/quoin@" + digest},
		"repository":        {[]string{"--set", "image.repository=127.0.0.1:15000/q,image.tag=dev"}, "127.0.0.1:15000/q:dev"},
	} {
		t.Run(name, func(t *testing.T) {
			all := render(t, test.set...)
			container := only[appsv1.Deployment](t, all.of("controller"), "Deployment").Spec.Template.Spec.Containers[0]
			if container.Image != test.want {
				t.Errorf("image %q, want %q", container.Image, test.want)
			}
			// The init container that fetches models uses the same image.
			if got := variable(container, "QUOIN_IMAGE"); got != test.want {
				t.Errorf("QUOIN_IMAGE %q, want %q", got, test.want)
			}
			for _, server := range servers {
				if got := only[appsv1.Deployment](t, all.of(server), "Deployment").Spec.Template.Spec.Containers[0].Image; got != test.want {
					t.Errorf("%s: image %q, want %q", server, got, test.want)
				}
			}
		})
	}
}

func TestNamesFollowTheRelease(t *testing.T) {
	for release, want := range map[string]string{
		"quoin":                       "quoin-controller",
		"my-quoin":                    "my-quoin-controller",
		"analytics":                   "analytics-quoin-controller",
		"a" + strings.Repeat("b", 52): "a" + strings.Repeat("b", 39) + "-controller",
	} {
		all := parse(t, mustHelm(t, "template", release, chartFolder))
		if got := only[appsv1.Deployment](t, all.of("controller"), "Deployment").Name; got != want {
			t.Errorf("release %s: Deployment %s, want %s", release, got, want)
		}
		for _, object := range all {
			for label, value := range object.GetLabels() {
				if len(value) > 63 {
					t.Errorf("release %s: %s %s: label %s has %d characters", release, object.GetKind(), object.GetName(), label, len(value))
				}
			}
		}
	}
}

// TestChartMatchesConfig compares the hand-written templates with the kustomize tree.
func TestChartMatchesConfig(t *testing.T) {
	all := render(t, "--set", "apiserver.networkPolicy.enabled=true,gateway.networkPolicy.enabled=true,accountNamespaces={demo}",
		"--set-json", `apiserver.networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"metrics":"enabled"}}}]`,
		"--set-json", `gateway.networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"metrics":"enabled"}}}]`)
	image := only[appsv1.Deployment](t, all.of("controller"), "Deployment").Spec.Template.Spec.Containers[0].Image
	agree(t, "manager/controller.yaml", all.of("controller"), "Deployment", func(d *appsv1.Deployment) any {
		container := &d.Spec.Template.Spec.Containers[0]
		container.Image = image
		for i, env := range container.Env {
			if env.Name == "QUOIN_IMAGE" {
				container.Env[i].Value = image
			}
		}
		return d.Spec
	})
	service := func(s *corev1.Service) any {
		if s.Spec.Type == corev1.ServiceTypeClusterIP {
			s.Spec.Type = "" // the default
		}
		return s.Spec
	}
	for _, component := range components {
		name := releaseName + "-" + component + "-metrics"
		agreeOn(t, "manager/metrics_service.yaml", readConfig(t, "manager/metrics_service.yaml").named(name), all.named(name), "Service", service)
	}
	for _, server := range servers {
		own := all.of(server)
		agree(t, "manager/"+server+".yaml", own, "Deployment", func(d *appsv1.Deployment) any {
			d.Spec.Template.Spec.Containers[0].Image = image
			return d.Spec
		})
		agree(t, "manager/"+server+"_service.yaml", own.named(releaseName+"-"+server), "Service", service)
		agree(t, "manager/"+server+"_poddisruptionbudget.yaml", own, "PodDisruptionBudget", func(b *policyv1.PodDisruptionBudget) any { return b.Spec })
		agree(t, "network-policy/allow_"+server+".yaml", own, "NetworkPolicy", func(p *networkingv1.NetworkPolicy) any { return p.Spec })
		agree(t, "rbac/"+server+"_service_account.yaml", own, "ServiceAccount", func(a *corev1.ServiceAccount) any { return a.AutomountServiceAccountToken })
	}
	aggregated := render(t, "--set", "apiserver.aggregation.enabled=true")
	agree(t, "aggregation/api_service.yaml", aggregated.of("apiserver"), "APIService", func(s *apiService) any { return s.Spec })
	agree(t, "audit/validating_webhook.yaml", aggregated.of("apiserver"), "ValidatingWebhookConfiguration", func(c *admissionv1.ValidatingWebhookConfiguration) any { return c.Webhooks })
	agree(t, "manager/apiserver_persistentvolumeclaim.yaml", all.of("apiserver"), "PersistentVolumeClaim", func(c *corev1.PersistentVolumeClaim) any { return c.Spec })
	agree(t, "rbac/gateway_admission_policy.yaml", all, "ValidatingAdmissionPolicy", func(p *admissionv1.ValidatingAdmissionPolicy) any { return p.Spec })
	agree(t, "rbac/gateway_admission_policy.yaml", all, "ValidatingAdmissionPolicyBinding", func(b *admissionv1.ValidatingAdmissionPolicyBinding) any { return b.Spec })
	for _, binding := range []struct{ kind, file, name string }{
		{"ClusterRoleBinding", "rbac/role_binding.yaml", "quoin-controller"},
		{"RoleBinding", "rbac/role_binding.yaml", "quoin-controller"},
		{"ClusterRoleBinding", "rbac/apiserver_role_binding.yaml", "quoin-apiserver"},
		{"RoleBinding", "rbac/apiserver_role_binding.yaml", "quoin-apiserver"},
		{"ClusterRoleBinding", "rbac/gateway_role_binding.yaml", "quoin-gateway"},
		{"RoleBinding", "rbac/gateway_role_binding.yaml", "quoin-gateway"},
		{"RoleBinding", "samples/50-rolebinding.yaml", "quoin-account"},
		{"RoleBinding", "samples/50-rolebinding.yaml", "quoin-account-apiserver"},
		{"RoleBinding", "samples/50-rolebinding.yaml", "quoin-account-tokens"},
	} {
		agreeOnBinding(t, binding.file, binding.name, binding.kind, all)
	}
	dbt := render(t, "--set", "dbt.image=dbt:1.10,accountNamespaces={demo}")
	agreeOnBinding(t, "samples/50-rolebinding.yaml", "quoin-account-controller", "RoleBinding", dbt)
	agreeOnBinding(t, "aggregation/auth_delegator_binding.yaml", "quoin-apiserver-auth-delegator", "ClusterRoleBinding", aggregated)
	agreeOnBinding(t, "aggregation/authentication_reader_binding.yaml", "quoin-apiserver-authentication-reader", "RoleBinding", aggregated)
}

func agreeOnBinding(t *testing.T, file, name, kind string, chart objects) {
	t.Helper()
	agreeOn(t, file, readConfig(t, file).named(name), chart.named(name), kind,
		func(b *rbacv1.RoleBinding) any { return []any{b.Namespace, b.RoleRef, b.Subjects} })
}

// apiService is an APIService.
type apiService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec"`
}

// agree compares the object of a kind in a file of the kustomize tree with the one in the chart.
func agree[T any](t *testing.T, file string, chart objects, kind string, matters func(*T) any) {
	t.Helper()
	agreeOn(t, file, readConfig(t, file), chart, kind, matters)
}

func agreeOn[T any](t *testing.T, file string, config, chart objects, kind string, matters func(*T) any) {
	t.Helper()
	ignored := cmp.Options{
		cmpopts.IgnoreFields(corev1.Container{}, "ImagePullPolicy"),
		cmpopts.IgnoreMapEntries(func(label, _ string) bool { return label == "app.kubernetes.io/instance" }),
	}
	if diff := cmp.Diff(matters(only[T](t, config, kind)), matters(only[T](t, chart, kind)), ignored); diff != "" {
		t.Errorf("-config/%s +chart:\n%s", file, diff)
	}
	is, want := chart.ofKind(kind)[0], config.ofKind(kind)[0]
	if is.GetName() != want.GetName() || is.GetNamespace() != want.GetNamespace() {
		t.Errorf("config has %s/%s, chart %s/%s", want.GetNamespace(), want.GetName(), is.GetNamespace(), is.GetName())
	}
}

// TestPodsAreRestricted checks the Pod Security Standard "restricted", and further requirements of the project.
// TestPodsComplyWithPodSecurity checks the standard with Kubernetes.
func TestPodsAreRestricted(t *testing.T) {
	eachValues(t, func(t *testing.T, args []string) {
		for _, object := range render(t, args...).ofKind("Deployment") {
			restricted(t, convert[appsv1.Deployment](t, object).Spec.Template.Spec)
		}
	})
}

// restricted checks one pod.
func restricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context of the pod: %+v", s)
	}
	for _, container := range pod.Containers {
		s := container.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || !cmp.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("security context of %s: %+v", container.Name, s)
		}
		if !container.Resources.Limits.Cpu().IsZero() {
			t.Errorf("%s has a CPU limit", container.Name)
		}
		if container.Resources.Requests.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
			t.Errorf("resources of %s: %+v", container.Name, container.Resources)
		}
		if container.LivenessProbe == nil || container.ReadinessProbe == nil {
			t.Errorf("%s has no probes", container.Name)
		}
	}
}

func TestPodLabelsCannotOverrideTheSelector(t *testing.T) {
	for _, component := range components {
		deployment := only[appsv1.Deployment](t, render(t, "--values", "testdata/values/everything.yaml").of(component), "Deployment")
		pod := deployment.Spec.Template.Labels
		for label, value := range deployment.Spec.Selector.MatchLabels {
			if pod[label] != value {
				t.Errorf("%s: label %s of the pod is %q, the selector wants %q", component, label, pod[label], value)
			}
		}
		if pod["example.com/tier"] != "control" {
			t.Errorf("%s: the pod does not have podLabels", component)
		}
		// A version in the pod's labels would restart it on every upgrade of the chart.
		if _, present := pod["helm.sh/chart"]; present {
			t.Errorf("%s: the pod has a label with the chart's version", component)
		}
	}
}

func TestRecreateStrategyWithoutLeaderElection(t *testing.T) {
	deployment := only[appsv1.Deployment](t, render(t, "--set", "controller.leaderElection.enabled=false").of("controller"), "Deployment")
	if deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("strategy %q", deployment.Spec.Strategy.Type)
	}
}

func TestPodDisruptionBudget(t *testing.T) {
	for set, want := range map[string]string{
		"enabled=true":                                       "maxUnavailable 1",
		"enabled=true,minAvailable=0":                        "minAvailable 0",
		"enabled=true,minAvailable=50%":                      "minAvailable 50%",
		"enabled=true,maxUnavailable=2":                      "maxUnavailable 2",
		"enabled=true,minAvailable=null,maxUnavailable=2":    "maxUnavailable 2",
		"enabled=true,minAvailable=1,maxUnavailable=null":    "minAvailable 1",
		"enabled=true,minAvailable=null,maxUnavailable=null": "maxUnavailable 1",
	} {
		args := []string{}
		for setting := range strings.SplitSeq(set, ",") {
			args = append(args, "--set", "controller.podDisruptionBudget."+setting)
		}
		spec := only[policyv1.PodDisruptionBudget](t, render(t, args...).of("controller"), "PodDisruptionBudget").Spec
		got := ""
		if spec.MinAvailable != nil {
			got += "minAvailable " + spec.MinAvailable.String()
		}
		if spec.MaxUnavailable != nil {
			got += "maxUnavailable " + spec.MaxUnavailable.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", set, got, want)
		}
	}
}

func TestExtraObjectsAreTemplates(t *testing.T) {
	extra := only[corev1.ConfigMap](t, render(t, "--values", "testdata/values/everything.yaml").named("quoin-extra"), "ConfigMap")
	if extra.Name != "quoin-extra" || extra.Namespace != releaseNamespace || extra.Data["image"] != "127.0.0.1:15000/mirror/quoin:dev" {
		t.Errorf("%s/%s: %v", extra.Namespace, extra.Name, extra.Data)
	}
}

// TestChartAsSubchart renders the chart as a dependency, with global values.
func TestChartAsSubchart(t *testing.T) {
	parent := copyChart(t, "parent/charts/quoin")
	folder := strings.TrimSuffix(parent, "/charts/quoin")
	writeFile(t, folder+"/Chart.yaml", "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies: [{name: quoin, version: 0.1.0}]\n")
	writeFile(t, folder+"/values.yaml", "global: {region: eu}\nquoin: {controller: {replicas: 2}}\n")
	all := parse(t, mustHelm(t, "template", "platform", folder))
	if got := *only[appsv1.Deployment](t, all.of("controller"), "Deployment").Spec.Replicas; got != 2 {
		t.Errorf("replicas %d, want 2", got)
	}
}

func TestOldKubernetesIsRejected(t *testing.T) {
	if _, err := helm(t, "template", releaseName, chartFolder, "--kube-version", "1.30.9"); err == nil || !strings.Contains(err.Error(), "1.31") {
		t.Errorf("Kubernetes 1.30: %v", err)
	}
	mustHelm(t, "template", releaseName, chartFolder, "--kube-version", "1.31.0-gke.1")
}

func variable(container corev1.Container, name string) string {
	for _, env := range container.Env {
		if env.Name == name {
			return env.Value
		}
	}
	return ""
}
