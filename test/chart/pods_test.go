package chart_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const everything = "testdata/values/everything.yaml"

// deploymentOf returns the Deployment of a component.
func deploymentOf(t *testing.T, all objects, component string) *appsv1.Deployment {
	t.Helper()
	return only[appsv1.Deployment](t, all.of(component), "Deployment")
}

// TestPodFields: each component has the fields of pods that the values set.
func TestPodFields(t *testing.T) {
	all := render(t, "--values", everything)
	for _, component := range components {
		pod := deploymentOf(t, all, component).Spec.Template.Spec
		if len(pod.InitContainers) != 1 || pod.InitContainers[0].Name != "wait" {
			t.Errorf("%s: init containers %v", component, pod.InitContainers)
		}
		if len(pod.Containers) != 2 || pod.Containers[0].Name != component || pod.Containers[1].Name != "proxy" {
			t.Errorf("%s: containers %v", component, pod.Containers)
		}
		if pod.RuntimeClassName == nil || *pod.RuntimeClassName != "gvisor" {
			t.Errorf("%s: runtime class %v", component, pod.RuntimeClassName)
		}
		if pod.DNSPolicy != corev1.DNSNone || pod.DNSConfig == nil || len(pod.DNSConfig.Nameservers) != 2 || len(pod.DNSConfig.Options) != 2 {
			t.Errorf("%s: DNS policy %q, %v", component, pod.DNSPolicy, pod.DNSConfig)
		}
		if len(pod.HostAliases) != 1 || pod.HostAliases[0].IP != "192.0.2.1" {
			t.Errorf("%s: host aliases %v", component, pod.HostAliases)
		}
		if pod.NodeSelector["kubernetes.io/os"] != "linux" || len(pod.Tolerations) != 1 || pod.Affinity == nil {
			t.Errorf("%s: node selector %v, tolerations %v, affinity %v", component, pod.NodeSelector, pod.Tolerations, pod.Affinity)
		}
	}
	defaults := render(t)
	for _, component := range components {
		pod := deploymentOf(t, defaults, component).Spec.Template.Spec
		if pod.HostNetwork || pod.DNSPolicy != "" || pod.RuntimeClassName != nil || len(pod.Containers) != 1 {
			t.Errorf("%s, by default: %+v", component, pod)
		}
	}
}

// TestHostNetwork: pods on the network of their node resolve names of Services, unless the values have another policy.
func TestHostNetwork(t *testing.T) {
	all := render(t, "--values", "testdata/values/host-network.yaml")
	want := map[string]corev1.DNSPolicy{"controller": corev1.DNSClusterFirstWithHostNet, "apiserver": corev1.DNSClusterFirstWithHostNet, "gateway": corev1.DNSDefault}
	used := map[int32]string{}
	for _, component := range components {
		pod := deploymentOf(t, all, component).Spec.Template.Spec
		if !pod.HostNetwork || pod.DNSPolicy != want[component] {
			t.Errorf("%s: host network %t, DNS policy %s", component, pod.HostNetwork, pod.DNSPolicy)
		}
		for _, port := range pod.Containers[0].Ports {
			if other := used[port.ContainerPort]; other != "" {
				t.Errorf("%s and %s have port %d", component, other, port.ContainerPort)
			}
			used[port.ContainerPort] = component
		}
	}
}

// TestContainerPorts: the process listens on the ports of the container.
func TestContainerPorts(t *testing.T) {
	flags := map[string]string{"https": "bind-address", "sql": "sql-bind-address", "metrics": "metrics-bind-address", "health": "health-probe-bind-address"}
	eachValues(t, func(t *testing.T, args []string) {
		for _, object := range render(t, args...).ofKind("Deployment") {
			deployment := convert[appsv1.Deployment](t, object)
			for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
				if got, want := argument(deployment, flags[port.Name]), ":"+strconv.Itoa(int(port.ContainerPort)); got != want {
					t.Errorf("%s: port %s is %s, --%s is %q", deployment.Name, port.Name, want, flags[port.Name], got)
				}
			}
		}
	})
	gateway := deploymentOf(t, render(t, "--values", everything), "gateway")
	if got := argument(gateway, "sql-bind-address"); got != ":11432" {
		t.Errorf("gateway.containerPorts.sql=11432: --sql-bind-address is %s", got)
	}
}

// TestStrategies: all fields are set, so that none of the previous strategy is left.
func TestStrategies(t *testing.T) {
	const rolling, recreate = "RollingUpdate 25% 25%", "Recreate"
	for _, test := range []struct {
		set  string
		want []string // of components
	}{
		{"", []string{rolling, recreate, rolling}},
		{"controller.leaderElection.enabled=false", []string{recreate, recreate, rolling}},
		{"apiserver.database.enabled=false", []string{rolling, rolling, rolling}},
		{"controller.strategy.type=Recreate,gateway.strategy.type=Recreate", []string{recreate, recreate, recreate}},
		{"controller.strategy.rollingUpdate.maxSurge=0,controller.strategy.rollingUpdate.maxUnavailable=1", []string{"RollingUpdate 0 1", recreate, rolling}},
		{"gateway.strategy.rollingUpdate.maxUnavailable=0", []string{rolling, recreate, "RollingUpdate 25% 0"}},
		{"gateway.strategy.rollingUpdate=null", []string{rolling, recreate, rolling}},
		{"gateway.strategy=null", []string{rolling, recreate, rolling}},
		{"gateway.strategy.type=Recreate,gateway.strategy.rollingUpdate=null", []string{rolling, recreate, recreate}},
	} {
		all := render(t, "--set", test.set)
		for i, component := range components {
			strategy := deploymentOf(t, all, component).Spec.Strategy
			got := string(strategy.Type)
			if r := strategy.RollingUpdate; r != nil {
				got += " " + r.MaxSurge.String() + " " + r.MaxUnavailable.String()
			}
			if got != test.want[i] {
				t.Errorf("%q: %s has %q, want %q", test.set, component, got, test.want[i])
			}
		}
	}
}

// TestServiceFields: each Service has the fields of the values, and the labels of the chart win.
func TestServiceFields(t *testing.T) {
	all := render(t, "--values", everything)
	for _, server := range servers {
		service := only[corev1.Service](t, all.named("analytics-"+server), "Service")
		spec := service.Spec
		if spec.Type != corev1.ServiceTypeLoadBalancer || spec.LoadBalancerClass == nil || *spec.LoadBalancerClass != "example.com/internal" ||
			!slices.Equal(spec.LoadBalancerSourceRanges, []string{"192.0.2.0/24", "2001:db8::/32"}) || spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal ||
			spec.IPFamilyPolicy == nil || *spec.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack || !slices.Equal(spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol}) {
			t.Errorf("%s: %+v", server, spec)
		}
		if service.Labels["example.com/exposed"] != "yes" || service.Labels["app.kubernetes.io/part-of"] != "quoin" || service.Annotations["example.com/external"] != "no" {
			t.Errorf("%s: labels %v, annotations %v", server, service.Labels, service.Annotations)
		}
	}
	metrics := only[corev1.Service](t, all.named("analytics-controller-metrics"), "Service")
	if metrics.Labels["example.com/metrics"] != "yes" || *metrics.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		t.Errorf("metrics: %+v", metrics)
	}
}

// TestNamespaceOverride: all objects, subjects and names of Services are in the namespace of the values, except for roles in
// namespaces of accounts and of Kubernetes.
func TestNamespaceOverride(t *testing.T) {
	all := render(t, "--set", "namespaceOverride=platform,accountNamespaces={tenant-a},apiserver.aggregation.enabled=true,"+readers)
	for _, object := range all {
		if namespace := object.GetNamespace(); namespace != "" && namespace != "platform" && namespace != "tenant-a" && namespace != "kube-system" {
			t.Errorf("%s %s is in namespace %s", object.GetKind(), object.GetName(), namespace)
		}
		if object.GetKind() != "RoleBinding" && object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		for _, subject := range convert[rbacv1.RoleBinding](t, object).Subjects {
			if subject.Namespace != "platform" && subject.Namespace != "monitoring" {
				t.Errorf("%s %s: subject %v", object.GetKind(), object.GetName(), subject)
			}
		}
	}
	if got := argument(deploymentOf(t, all, "controller"), "repository-url"); got != "https://quoin-apiserver.platform.svc" {
		t.Errorf("--repository-url is %s", got)
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration", "APIService"} {
		if text := mustYAML(t, all.ofKind(kind)[0].Object); !strings.Contains(text, "platform") || strings.Contains(text, releaseNamespace) {
			t.Errorf("%s:\n%s", kind, text)
		}
	}
	if text := notes(t, "--set", "namespaceOverride=platform"); strings.Contains(text, releaseNamespace) {
		t.Errorf("notes:\n%s", text)
	}
}

// TestTracing: all components export traces to the receiver of the values, with its headers from a Secret.
func TestTracing(t *testing.T) {
	all := render(t, "--values", everything)
	for _, server := range components {
		deployment := deploymentOf(t, all, server)
		if endpoint, protocol := argument(deployment, "tracing-endpoint"), argument(deployment, "tracing-protocol"); endpoint != "http://collector.monitoring:4318/otlp" || protocol != "grpc" {
			t.Errorf("%s: --tracing-endpoint=%s --tracing-protocol=%s", server, endpoint, protocol)
		}
		container := deployment.Spec.Template.Spec.Containers[0]
		got := map[string]string{}
		for _, env := range container.Env {
			if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
				env.Value = env.ValueFrom.SecretKeyRef.Name + "/" + env.ValueFrom.SecretKeyRef.Key
			}
			if strings.HasPrefix(env.Name, "OTEL_") {
				got[env.Name] = env.Value
			}
		}
		want := map[string]string{
			"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01", "OTEL_EXPORTER_OTLP_HEADERS": "collector/token",
			"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=production%2C%20%22eu%22,k8s.cluster.name=a",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", server, diff)
		}
	}
	for _, component := range components {
		deployment := deploymentOf(t, render(t), component)
		if argument(deployment, "tracing-endpoint") != "" || variable(deployment.Spec.Template.Spec.Containers[0], "OTEL_TRACES_SAMPLER") != "" {
			t.Errorf("%s has tracing by default", component)
		}
	}
}

// TestSelectors: they do not depend on versions, and with kustomizeSelectors they are those of the kustomize tree.
func TestSelectors(t *testing.T) {
	byDefault, adopted := render(t), render(t, "--set", "kustomizeSelectors=true,commonLabels.team=data,controller.podLabels.team=data")
	for _, component := range components {
		config := only[appsv1.Deployment](t, readConfig(t, "manager/"+component+".yaml"), "Deployment").Spec.Selector.MatchLabels
		got := deploymentOf(t, adopted, component)
		if diff := cmp.Diff(config, got.Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("%s, -config +chart:\n%s", component, diff)
		}
		config["app.kubernetes.io/instance"] = releaseName
		if diff := cmp.Diff(config, deploymentOf(t, byDefault, component).Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("%s, -want +got:\n%s", component, diff)
		}
	}
	for _, kind := range []string{"Service", "PodDisruptionBudget"} {
		for _, object := range adopted.ofKind(kind) {
			if text := mustYAML(t, object.Object["spec"]); strings.Contains(text, "app.kubernetes.io/instance") {
				t.Errorf("%s %s selects the instance:\n%s", kind, object.GetName(), text)
			}
		}
	}
}
