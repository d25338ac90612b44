package chart_test

import (
	"os/exec"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestStartupCheck: the pod of "helm test" asks the Services of the components that run.
func TestStartupCheck(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"defaults": {nil, []string{"wait-ready",
			"--https=quoin-controller-metrics.quoin-system.svc:8443,quoin-apiserver.quoin-system.svc:443,quoin-gateway.quoin-system.svc:443",
			"--sql=quoin-gateway.quoin-system.svc:5432", "--timeout=120s"}},
		"no SQL, metrics for Prometheus only": {
			[]string{"--set", "gateway.sql.enabled=false,startupCheck.timeoutSeconds=30,controller.networkPolicy.enabled=true", "--set-json", `controller.networkPolicy.metricsFrom=[{"podSelector":{}}]`},
			[]string{"wait-ready", "--https=quoin-apiserver.quoin-system.svc:443,quoin-gateway.quoin-system.svc:443", "--timeout=30s"}},
		"another namespace and port": {[]string{"--set", "namespaceOverride=platform,apiserver.enabled=false,controller.metrics.enabled=false,gateway.sql.port=6432"},
			[]string{"wait-ready", "--https=quoin-gateway.platform.svc:443", "--sql=quoin-gateway.platform.svc:6432", "--timeout=120s"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := render(t, test.args...)
			pod := only[corev1.Pod](t, all, "Pod")
			if got := pod.Spec.Containers[0].Args; !slices.Equal(got, test.want) {
				t.Errorf("arguments %q, want %q", got, test.want)
			}
			if pod.Annotations["helm.sh/hook"] != "test" || pod.Spec.Containers[0].Image != deploymentOf(t, all, "controller").Spec.Template.Spec.Containers[0].Image {
				t.Errorf("%+v", pod)
			}
			for _, service := range all.ofKind("Service") {
				if selector := convert[corev1.Service](t, service).Spec.Selector; selector["app.kubernetes.io/component"] == pod.Labels["app.kubernetes.io/component"] {
					t.Errorf("Service %s selects the pod", service.GetName())
				}
			}
		})
	}
	for _, set := range []string{"startupCheck.enabled=false", "apiserver.enabled=false,gateway.enabled=false,controller.metrics.enabled=false"} {
		if pods := render(t, "--set", set).ofKind("Pod"); len(pods) != 0 {
			t.Errorf("%s: %d pods", set, len(pods))
		}
	}
}

// TestStartupCheckIsRestricted: the pod complies with the Pod Security Standard "restricted", and has no token.
func TestStartupCheckIsRestricted(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace)
	pod := only[corev1.Pod](t, render(t), "Pod")
	if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
		t.Error("the pod has a token")
	}
	if err := c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: releaseNamespace}, Spec: pod.Spec}, client.DryRunAll); err != nil {
		t.Error(err)
	}
	output, err := exec.CommandContext(t.Context(), buildQuoin(t), append(slices.Clone(pod.Spec.Containers[0].Args), "-h")...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// wantReady checks that the start-up check accepts running servers.
func wantReady(t *testing.T, servers ...string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), buildQuoin(t), append([]string{"wait-ready", "--timeout=30s"}, servers...)...).CombinedOutput()
	if err != nil {
		t.Errorf("wait-ready: %v\n%s", err, output)
	}
}
