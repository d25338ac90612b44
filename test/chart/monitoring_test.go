package chart_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// readers are the values with which the ServiceAccount monitoring/prometheus may read the metrics.
const readers = "monitoring.readers[0].name=prometheus,monitoring.readers[0].namespace=monitoring"

// createScrapers creates that ServiceAccount, and one without permissions.
func (c *cluster) createScrapers(t *testing.T) {
	t.Helper()
	for _, name := range []string{"prometheus", "unprivileged"} {
		account := &corev1.ServiceAccount{}
		account.Name, account.Namespace = name, "monitoring"
		if err := c.Create(t.Context(), account); err != nil {
			t.Fatal(err)
		}
	}
}

// wantMetrics checks that a process serves its metrics over HTTPS to readers, and to nothing else.
func (c *cluster) wantMetrics(t *testing.T, address string) {
	t.Helper()
	for _, scrape := range []struct {
		client, url, token string
		want               int
	}{
		{"a client without a token", "https://", "", http.StatusUnauthorized},
		{"a ServiceAccount without the role", "https://", c.token(t, "monitoring", "unprivileged"), http.StatusForbidden},
		{"a ServiceAccount in monitoring.readers", "https://", c.token(t, "monitoring", "prometheus"), http.StatusOK},
		{"a client without TLS", "http://", "", http.StatusBadRequest},
	} {
		if got := status(t.Context(), scrape.url+address+"/metrics", scrape.token); got != scrape.want {
			t.Errorf("metrics for %s: status %d, want %d", scrape.client, got, scrape.want)
		}
	}
}

// monitored are the values that create a monitor for each component.
var monitored = []string{"--set", "monitoring.monitor.kind=ServiceMonitor,monitoring.alerts.enabled=true,monitoring.dashboard.enabled=true"}

// TestMonitorsMatchConfig compares monitors, alerts and dashboard with the kustomize tree.
func TestMonitorsMatchConfig(t *testing.T) {
	all := render(t, monitored...)
	spec := func(o *unstructured.Unstructured) any {
		content := o.DeepCopy().Object["spec"]
		if selector, found, _ := unstructured.NestedMap(o.Object, "spec", "selector", "matchLabels"); found {
			delete(selector, "app.kubernetes.io/instance")
			_ = unstructured.SetNestedMap(content.(map[string]any), selector, "selector", "matchLabels")
		}
		return content
	}
	compare := func(file, kind string, count int) {
		t.Helper()
		want, got := readConfig(t, file).ofKind(kind), all.ofKind(kind)
		if len(want) != count || len(got) != count {
			t.Fatalf("%s: %d and %d objects of kind %s, want %d", file, len(want), len(got), kind, count)
		}
		for i := range want {
			if diff := cmp.Diff(spec(want[i]), spec(got[i])); diff != "" || want[i].GetName() != got[i].GetName() {
				t.Errorf("-config/%s %s +chart %s:\n%s", file, want[i].GetName(), got[i].GetName(), diff)
			}
		}
	}
	compare("prometheus/service_monitor.yaml", "ServiceMonitor", len(components))
	compare("prometheus/rules.yaml", "PrometheusRule", 1)
	dashboard, err := os.ReadFile(filepath.Join(root, "config", "grafana", "quoin.json"))
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range only[corev1.ConfigMap](t, all, "ConfigMap").Data {
		if diff := cmp.Diff(strings.TrimSpace(string(dashboard)), strings.TrimSpace(text)); diff != "" {
			t.Errorf("%s: -config +chart:\n%s", key, diff)
		}
	}
}

// TestMonitors: each component with metrics has a monitor of the chosen kind, whose port is one of its pods and of its metrics
// Service; alerts of other components are left out.
func TestMonitors(t *testing.T) {
	for _, test := range []struct {
		name, endpoints string
		args            []string
		want            []string
	}{
		{"ServiceMonitor", "endpoints", nil, []string{"quoin-controller", "quoin-apiserver", "quoin-gateway"}},
		{"PodMonitor", "podMetricsEndpoints", []string{"--set", "monitoring.monitor.kind=PodMonitor,monitoring.monitor.authorization.credentials.name=token"}, []string{"quoin-controller", "quoin-apiserver", "quoin-gateway"}},
		{"ServiceMonitor", "endpoints", []string{"--set", "gateway.metrics.enabled=false,apiserver.enabled=false"}, []string{"quoin-controller"}},
	} {
		all := render(t, append(append([]string{}, monitored...), test.args...)...)
		var names []string
		for _, monitor := range append(all.ofKind("ServiceMonitor"), all.ofKind("PodMonitor")...) {
			names = append(names, monitor.GetName())
			endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", test.endpoints)
			if err != nil || len(endpoints) != 1 || monitor.GetKind() != test.name {
				t.Fatalf("%s %s: %v, %v", monitor.GetKind(), monitor.GetName(), endpoints, err)
			}
			endpoint, _ := endpoints[0].(map[string]any)
			if endpoint["port"] != "metrics" || endpoint["scheme"] != "https" || endpoint["honorLabels"] != true {
				t.Errorf("%s: %v", monitor.GetName(), endpoint)
			}
			if _, fromFile := endpoint["bearerTokenFile"]; fromFile == (test.name == "PodMonitor") {
				t.Errorf("%s %s: %v", test.name, monitor.GetName(), endpoint)
			}
		}
		if diff := cmp.Diff(test.want, names); diff != "" {
			t.Errorf("%s %v: -want +got:\n%s", test.name, test.args, diff)
		}
		text, err := json.Marshal(all.ofKind("PrometheusRule")[0].Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, component := range components {
			wanted := false
			for _, name := range test.want {
				wanted = wanted || name == "quoin-"+component
			}
			if strings.Contains(string(text), `"quoin-`+component+`"`) != wanted {
				t.Errorf("%s %v: alerts of %s: want %v", test.name, test.args, component, wanted)
			}
		}
	}
}

// TestAlertsSelectTheJobsOfTheRelease: the names of jobs and monitors follow the name of the release.
func TestAlertsSelectTheJobsOfTheRelease(t *testing.T) {
	all := parse(t, mustHelm(t, append([]string{"template", "analytics", chartFolder}, monitored...)...))
	jobs := map[string]bool{}
	for _, monitor := range all.ofKind("ServiceMonitor") {
		endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		relabelings, _, _ := unstructured.NestedSlice(endpoints[0].(map[string]any), "relabelings")
		jobs[relabelings[0].(map[string]any)["replacement"].(string)] = true
	}
	text, err := json.Marshal(all.ofKind("PrometheusRule")[0].Object)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`job=\\"([a-z-]+)\\"`).FindAllStringSubmatch(string(text), -1)
	for _, match := range found {
		if !jobs[match[1]] {
			t.Errorf("an alert selects job %s, monitors have %v", match[1], jobs)
		}
	}
	if len(found) < 20 || len(jobs) != len(components) {
		t.Errorf("%d selectors, jobs %v", len(found), jobs)
	}
	if !strings.Contains(string(text), "{{ $labels.controller }}") {
		t.Error("the templates of annotations are lost")
	}
}

// TestReadersOfMetrics: the readers of monitoring.readers are bound to the role for the metrics, while a component has metrics.
func TestReadersOfMetrics(t *testing.T) {
	all := render(t, "--set", readers+",controller.metrics.enabled=false,apiserver.metrics.enabled=false")
	binding := convert[rbacv1.ClusterRoleBinding](t, all.ofKind("ClusterRoleBinding").named("quoin-metrics-reader")[0])
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != "prometheus" || len(all.ofKind("ClusterRole").named(binding.RoleRef.Name)) != 1 {
		t.Errorf("%+v", binding)
	}
	none := render(t, "--set", readers+",controller.metrics.enabled=false,apiserver.metrics.enabled=false,gateway.metrics.enabled=false")
	if left := none.named("quoin-metrics-reader"); len(left) != 0 {
		t.Errorf("without metrics: %d objects", len(left))
	}
}
