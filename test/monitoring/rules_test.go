// Package monitoring_test checks the alerts and the dashboard of config/prometheus and config/grafana: with promtool, and with
// a real Prometheus that scrapes a local cluster.
package monitoring_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	root          = "../.."
	rulesFile     = root + "/config/prometheus/rules.yaml"
	dashboardFile = root + "/config/grafana/quoin.json"
)

// rule is an alert of a PrometheusRule.
type rule struct {
	Alert, Expr string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

// prometheusRule is the part of a PrometheusRule that Prometheus reads.
type prometheusRule struct {
	Spec struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
}

// readRules returns the alerts by name, and writes them as a file of Prometheus.
func readRules(t *testing.T) (alerts map[string]rule, file string) {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var typed prometheusRule
	var plain struct{ Spec map[string]any }
	for _, into := range []any{&typed, &plain} {
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	alerts = map[string]rule{}
	for _, group := range typed.Spec.Groups {
		for _, r := range group.Rules {
			alerts[r.Alert] = r
		}
	}
	spec, err := yaml.Marshal(plain.Spec)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	return alerts, file
}

// program returns the path of a program of the Debian package prometheus. Without it, the test is skipped, except in CI.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed: apt-get install prometheus", name)
		}
		t.Skipf("SKIPPED LOUDLY: %s is not installed: apt-get install prometheus", name)
	}
	return path
}

// promtool runs promtool and fails the test with its output.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), program(t, "promtool"), args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// series are samples of one minute each, in the notation of promtool: "0+60x20" are 21 values from 0 in steps of 60.
type series map[string]string

const (
	controller = `job="quoin-controller-metrics"`
	apiserver  = `job="quoin-apiserver-metrics"`
	gateway    = `job="quoin-gateway-metrics"`
)

// alertCases are series for which each alert fires after the given minutes, and series for which it does not.
var alertCases = map[string]struct {
	minutes      int
	firing, calm series
}{
	"QuoinCertificateExpires": {62,
		series{`quoin_certificate_expiry_timestamp_seconds{` + gateway + `}`: "1000000x62"},
		series{`quoin_certificate_expiry_timestamp_seconds{` + gateway + `}`: "2000000x62"}},
	"QuoinVersionSkew": {62,
		series{`quoin_build_info{component="gateway",version="v1"}`: "1x62", `quoin_build_info{component="controller",version="v2"}`: "1x62"},
		series{`quoin_build_info{component="gateway",version="v2"}`: "1x62", `quoin_build_info{component="controller",version="v2"}`: "1x62"}},
	"QuoinControllerAbsent": {6, series{`up{` + controller + `}`: "0x6"}, series{`up{` + controller + `}`: "1x6"}},
	"QuoinAPIServerAbsent":  {6, series{`up{` + apiserver + `}`: "0x6"}, series{`up{` + apiserver + `}`: "1x6"}},
	"QuoinGatewayAbsent":    {3, series{`up{` + apiserver + `}`: "1x3"}, series{`up{` + gateway + `,instance="a"}`: "0x3", `up{` + gateway + `,instance="b"}`: "1x3"}},
	"QuoinControllerNoLeader": {6,
		series{`leader_election_master_status{` + controller + `,instance="a"}`: "0x6", `leader_election_master_status{` + controller + `,instance="b"}`: "0x6"},
		series{`leader_election_master_status{` + controller + `,instance="a"}`: "0x6", `leader_election_master_status{` + controller + `,instance="b"}`: "1x6"}},
	"QuoinReconcileErrors": {30,
		series{`controller_runtime_reconcile_errors_total{` + controller + `,controller="deployment"}`: "0+20x30", `controller_runtime_reconcile_total{` + controller + `,controller="deployment"}`: "0+100x30"},
		series{`controller_runtime_reconcile_errors_total{` + controller + `,controller="deployment"}`: "0+5x30", `controller_runtime_reconcile_total{` + controller + `,controller="deployment"}`: "0+100x30"}},
	"QuoinReconcilePanics": {10,
		series{`controller_runtime_reconcile_panics_total{` + controller + `,controller="deployment"}`: "0 0 1x10"},
		series{`controller_runtime_reconcile_panics_total{` + controller + `,controller="deployment"}`: "1x12"}},
	"QuoinReconcileStuck": {10,
		series{`workqueue_longest_running_processor_seconds{` + controller + `,name="releasechannel"}`: "700+60x10"},
		series{`workqueue_longest_running_processor_seconds{` + controller + `,name="releasechannel"}`: "120x10"}},
	"QuoinQueueSlow": {30,
		series{`workqueue_queue_duration_seconds_bucket{` + controller + `,name="deployment",le="10"}`: "0x30", `workqueue_queue_duration_seconds_bucket{` + controller + `,name="deployment",le="100"}`: "0+60x30", `workqueue_queue_duration_seconds_bucket{` + controller + `,name="deployment",le="+Inf"}`: "0+60x30"},
		series{`workqueue_queue_duration_seconds_bucket{` + controller + `,name="deployment",le="10"}`: "0+60x30", `workqueue_queue_duration_seconds_bucket{` + controller + `,name="deployment",le="100"}`: "0+60x30", `workqueue_queue_duration_seconds_bucket{` + controller + `,name="deployment",le="+Inf"}`: "0+60x30"}},
	"QuoinObjectsNotReady": {25,
		series{`quoin_object_not_ready_since_timestamp_seconds{` + controller + `,kind="Deployment",namespace="acme",name="sales",ready="False",reason="GitFailed"}`: "0x25"},
		series{`quoin_object_not_ready_since_timestamp_seconds{` + controller + `,kind="Deployment",namespace="acme",name="sales",ready="False",reason="GitFailed"}`: "0+60x25"}},
	"QuoinRolloutFailed": {10,
		series{`quoin_deployment_rollouts_total{` + controller + `,result="failed"}`: "0 0 1x10"},
		series{`quoin_deployment_rollouts_total{` + controller + `,result="succeeded"}`: "0+1x12"}},
	"QuoinVersionStopped": {1, series{`quoin_releasechannel_stopped_versions{` + controller + `}`: "1x1"}, series{`quoin_releasechannel_stopped_versions{` + controller + `}`: "0x1"}},
	"QuoinChannelBehind": {1500,
		series{`quoin_releasechannel_behind_since_timestamp_seconds{` + controller + `,channel="latest"}`: "0x1500"},
		series{`quoin_releasechannel_behind_since_timestamp_seconds{` + controller + `,channel="latest"}`: "60000x1500"}},
	"QuoinScansFail": {60,
		series{`quoin_releasechannel_scans_total{` + controller + `,result="failed"}`: "0+3x60", `quoin_releasechannel_scans_total{` + controller + `,result="succeeded"}`: "0+1x60"},
		series{`quoin_releasechannel_scans_total{` + controller + `,result="failed"}`: "0+1x60", `quoin_releasechannel_scans_total{` + controller + `,result="succeeded"}`: "0+3x60"}},
	"QuoinGitFetchesFail": {60,
		series{`quoin_git_fetches_total{` + controller + `,result="failed"}`: "0+3x60", `quoin_git_fetches_total{` + controller + `,result="succeeded"}`: "0+1x60"},
		series{`quoin_git_fetches_total{` + controller + `,result="failed"}`: "0+1x60", `quoin_git_fetches_total{` + controller + `,result="succeeded"}`: "0+3x60"}},
	"QuoinAPIServerErrors": {20,
		series{`quoin_http_requests_total{` + apiserver + `,route="GET /a",code="500"}`: "0+10x20", `quoin_http_requests_total{` + apiserver + `,route="GET /a",code="200"}`: "0+90x20"},
		series{`quoin_http_requests_total{` + apiserver + `,route="GET /a",code="404"}`: "0+50x20", `quoin_http_requests_total{` + apiserver + `,route="GET /a",code="200"}`: "0+50x20"}},
	"QuoinAPIServerSlow": {30,
		series{`quoin_http_request_duration_seconds_bucket{` + apiserver + `,le="5"}`: "0+50x30", `quoin_http_request_duration_seconds_bucket{` + apiserver + `,le="10"}`: "0+60x30", `quoin_http_request_duration_seconds_bucket{` + apiserver + `,le="+Inf"}`: "0+60x30"},
		series{`quoin_http_request_duration_seconds_bucket{` + apiserver + `,le="5"}`: "0+60x30", `quoin_http_request_duration_seconds_bucket{` + apiserver + `,le="10"}`: "0+60x30", `quoin_http_request_duration_seconds_bucket{` + apiserver + `,le="+Inf"}`: "0+60x30"}},
	"QuoinAPIServerUnauthenticated": {25,
		series{`quoin_apiserver_unauthenticated_ended_total{` + apiserver + `,kind="connection"}`: "0+120x25"},
		series{`quoin_apiserver_unauthenticated_ended_total{` + apiserver + `,kind="connection"}`: "0+6x25"}},
	"QuoinAuditUnavailable": {5, series{`quoin_audit_unavailable_total{` + apiserver + `}`: "0 0 1x5"}, series{`quoin_audit_unavailable_total{` + apiserver + `}`: "3x7"}},
	"QuoinAuditQueueLong":   {6, series{`quoin_audit_queue_length{` + apiserver + `}`: "900x6"}, series{`quoin_audit_queue_length{` + apiserver + `}`: "20x6"}},
	"QuoinStoreClosed":      {6, series{`quoin_store_open{` + apiserver + `,instance="a"}`: "0x6"}, series{`quoin_store_open{` + apiserver + `,instance="a"}`: "1x6"}},
	"QuoinStoreSlow": {30,
		series{`quoin_store_duration_seconds_bucket{` + apiserver + `,operation="write",le="1"}`: "0+50x30", `quoin_store_duration_seconds_bucket{` + apiserver + `,operation="write",le="2.5"}`: "0+60x30", `quoin_store_duration_seconds_bucket{` + apiserver + `,operation="write",le="+Inf"}`: "0+60x30"},
		series{`quoin_store_duration_seconds_bucket{` + apiserver + `,operation="write",le="1"}`: "0+60x30", `quoin_store_duration_seconds_bucket{` + apiserver + `,operation="write",le="2.5"}`: "0+60x30", `quoin_store_duration_seconds_bucket{` + apiserver + `,operation="write",le="+Inf"}`: "0+60x30"}},
	"QuoinGatewayErrors": {20,
		series{`quoin_gateway_requests_total{` + gateway + `,outcome="failed",code="502"}`: "0+10x20", `quoin_gateway_requests_total{` + gateway + `,outcome="served",code="200"}`: "0+90x20"},
		series{`quoin_gateway_requests_total{` + gateway + `,outcome="unauthorized",code="401"}`: "0+50x20", `quoin_gateway_requests_total{` + gateway + `,outcome="served",code="200"}`: "0+50x20"}},
	"QuoinGatewayDeploymentErrors": {30,
		series{`quoin_gateway_deployment_requests_total{` + gateway + `,account="acme",deployment="sales",class="5xx"}`: "0+20x30", `quoin_gateway_deployment_requests_total{` + gateway + `,account="acme",deployment="sales",class="2xx"}`: "0+80x30"},
		series{`quoin_gateway_deployment_requests_total{` + gateway + `,account="acme",deployment="sales",class="5xx"}`: "0+1x30", `quoin_gateway_deployment_requests_total{` + gateway + `,account="acme",deployment="sales",class="2xx"}`: "0x30"}},
	"QuoinGatewayConnectionsRefused": {10,
		series{`quoin_gateway_connections_refused_total{` + gateway + `}`: "0 0 5x10"}, series{`quoin_gateway_connections_refused_total{` + gateway + `}`: "5x12"}},
	"QuoinGatewayUnauthenticated": {25,
		series{`quoin_gateway_unauthenticated_ended_total{` + gateway + `,kind="request"}`: "0+120x25"},
		series{`quoin_gateway_unauthenticated_ended_total{` + gateway + `,kind="request"}`: "0+6x25"}},
}

// TestAlertsFire: each alert fires when it should, and only then.
func TestAlertsFire(t *testing.T) {
	alerts, file := readRules(t)
	promtool(t, "check", "rules", "--lint-fatal", file)
	for _, name := range slices.Sorted(maps.Keys(alertCases)) {
		if alerts[name].Alert == "" {
			t.Errorf("%s does not exist", name)
		}
	}
	var tests []any
	for _, name := range slices.Sorted(maps.Keys(alerts)) {
		c, ok := alertCases[name]
		if !ok {
			t.Errorf("%s has no test", name)
			continue
		}
		tests = append(tests, unitTest(name, c.minutes, c.firing, true), unitTest(name, c.minutes, c.calm, false))
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{file}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	cases := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(cases, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", cases)
}

// unitTest returns a test of promtool: whether an alert fires at the end of the series.
func unitTest(name string, minutes int, input series, fires bool) map[string]any {
	var list []any
	for _, s := range slices.Sorted(maps.Keys(input)) {
		list = append(list, map[string]string{"series": s, "values": input[s]})
	}
	expected := []any{}
	if fires {
		expected = append(expected, map[string]any{"labels": "{}", "value": 1})
	}
	title := name + " does not fire"
	if fires {
		title = name + " fires"
	}
	return map[string]any{
		"name": title, "interval": "1m", "input_series": list,
		"promql_expr_test": []any{map[string]any{
			"expr":      fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing"})`, name),
			"eval_time": fmt.Sprintf("%dm", minutes), "exp_samples": expected,
		}},
	}
}

// TestAlertsAreDescribed: each alert has a severity, a summary, a description, and a section of the page with what to do.
func TestAlertsAreDescribed(t *testing.T) {
	alerts, _ := readRules(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "### "); found {
			documented[name] = true
		}
	}
	for name, r := range alerts {
		if severity := r.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s: severity %q", name, severity)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !documented[name] {
			t.Errorf("%s: annotations %v, documented %v", name, r.Annotations, documented[name])
		}
	}
	for name := range documented {
		if alerts[name].Alert == "" {
			t.Errorf("docs/operations/alerts.md: %s does not exist", name)
		}
	}
}
