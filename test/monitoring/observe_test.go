package monitoring_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// mayBeEmpty are metrics without series until something happens that the test does not cause: a channel lags, a pod fails, a
// client connects over SQL.
var mayBeEmpty = []string{
	"quoin_releasechannel_behind_since_timestamp_seconds", "quoin_gateway_retries_total", "quoin_gateway_sql_connections_total",
	"quoin_gateway_deployment_sql_connections",
}

// TestDashboardOnLocalCluster starts Prometheus, which scrapes the local cluster (make up), and checks that each query of the
// dashboard returns series, and that each alert can be evaluated.
func TestDashboardOnLocalCluster(t *testing.T) {
	folder := os.Getenv("QUOIN_OBSERVE")
	if folder == "" {
		t.Skip("needs a local cluster: make up, then make observe")
	}
	c := connect(t, folder)
	token := c.scraper(t)
	_, rules := readRules(t)
	p := startPrometheus(t, c, token, rules)
	c.stalledDeployment(t)
	traffic := func() {
		c.request(t, "QUOIN_URL", "/api/v1/deployments", "QUOIN_API_KEY")
		c.request(t, "QUOIN_DATA_URL", "/v1/meta", "QUOIN_DATA_TOKEN")
	}
	queries := dashboardQueries(t)
	if len(queries) < 40 {
		t.Fatalf("the dashboard has only %d queries", len(queries))
	}
	var empty []string
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(2 * time.Second) {
		traffic()
		empty = slices.DeleteFunc(slices.Clone(queries), func(q string) bool { return p.count(t, q) > 0 || optional(q) })
		if len(empty) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, q := range empty {
		t.Errorf("no series: %s", q)
	}
	p.checkAlerts(t)
	p.checkOwners(t)
	returned := slices.DeleteFunc(slices.Clone(queries), func(q string) bool { return p.count(t, q) == 0 })
	t.Logf("%d of %d queries of the dashboard return series", len(returned), len(queries))
}

func optional(query string) bool {
	return slices.ContainsFunc(mayBeEmpty, func(name string) bool { return strings.Contains(query, name) })
}

// dashboardQueries returns the queries of all panels, with values of the variables.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, strings.NewReplacer("$__rate_interval", "30s", "$job", ".+").Replace(target.Expr))
		}
	}
	return queries
}

// localCluster is a cluster that make up has started.
type localCluster struct {
	client.Client
	ports     map[string]int
	variables map[string]string
}

var exported = regexp.MustCompile(`^export ([A-Z_]+)='?([^']*)'?$`)

func connect(t *testing.T, folder string) *localCluster {
	t.Helper()
	c := &localCluster{variables: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(folder, "cluster.json"))
	if err != nil {
		t.Fatalf("%v: run make up first", err)
	}
	var state struct{ Ports map[string]int }
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	c.ports = state.Ports
	environment, err := os.Open(filepath.Join(folder, "env"))
	if err != nil {
		t.Fatalf("%v: run make up first", err)
	}
	defer environment.Close()
	for lines := bufio.NewScanner(environment); lines.Scan(); {
		if match := exported.FindStringSubmatch(lines.Text()); match != nil {
			c.variables[match[1]] = match[2]
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(folder, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, add := range []func() error{
		func() error { return authenticationv1.AddToScheme(scheme) }, func() error { return rbacv1.AddToScheme(scheme) },
	} {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	if c.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return c
}

// create creates an object for the time of the test.
func (c *localCluster) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
}

// scraper returns the token of a ServiceAccount that may read the metrics.
func (c *localCluster) scraper(t *testing.T) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-", Namespace: "default"}}
	c.create(t, account)
	c.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "quoin-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// stalledDeployment creates a deployment that does not become ready, beside those of the samples.
func (c *localCluster) stalledDeployment(t *testing.T) {
	t.Helper()
	samples := &v1alpha1.DeploymentList{}
	if err := c.List(t.Context(), samples); err != nil || len(samples.Items) == 0 {
		t.Fatalf("no deployments of the samples: %v", err)
	}
	stalled := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: samples.Items[0].Namespace, Name: "observed"}, Spec: *samples.Items[0].Spec.DeepCopy()}
	stalled.Spec.ReleaseChannel, stalled.Spec.ReleaseChannelVersion, stalled.Spec.DisplayName, stalled.Spec.DataAPI = "does-not-exist", "", "", nil
	c.create(t, stalled)
}

// request sends a request with a token; its status does not matter.
func (c *localCluster) request(t *testing.T, base, path, token string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.variables[base]+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.variables[token])
	response, err := insecure.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", base, err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// insecure does not verify the certificates of the local cluster. Names below .localhost are this machine.
var insecure = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	},
}}

// prometheus is a running Prometheus.
type prometheus struct{ url string }

const scrapeConfig = `
global: {scrape_interval: 2s, evaluation_interval: 5s}
rule_files: [%q]
scrape_configs:
%s`

const scrapeJob = `- job_name: quoin-%[1]s-metrics
  scheme: https
  honor_labels: true
  authorization: {credentials_file: %[2]q}
  tls_config: {insecure_skip_verify: true}
  static_configs: [{targets: ["127.0.0.1:%[3]d"]}]
`

// startPrometheus starts Prometheus, which scrapes the three processes as the monitors of config/prometheus do.
func startPrometheus(t *testing.T, c *localCluster, token, rules string) *prometheus {
	t.Helper()
	folder := t.TempDir()
	secret, config := filepath.Join(folder, "token"), filepath.Join(folder, "prometheus.yml")
	var jobs strings.Builder
	for _, component := range processes {
		fmt.Fprintf(&jobs, scrapeJob, component, secret, c.ports["quoin-"+component+"-metrics"])
	}
	for file, text := range map[string]string{secret: token, config: fmt.Sprintf(scrapeConfig, rules, jobs.String())} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address, "--log.level=warn")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	p := &prometheus{url: "http://" + address}
	for deadline := time.Now().Add(30 * time.Second); p.count(t, `up == 1`) < 3; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 3 processes are scraped: %s", p.count(t, `up == 1`), p.get(t, "/api/v1/targets?state=active"))
		}
	}
	return p
}

// get returns the response of the HTTP API; empty while Prometheus starts.
func (p *prometheus) get(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get(p.url + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// count returns the number of series of a query.
func (p *prometheus) count(t *testing.T, query string) int {
	t.Helper()
	text := p.get(t, "/api/v1/query?query="+url.QueryEscape(query))
	var answer struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return 0 // it is starting
	}
	if answer.Status == "error" {
		t.Fatalf("%s: %s", query, answer.Error)
	}
	return len(answer.Data.Result)
}

// checkAlerts checks that all alerts have been evaluated without errors.
func (p *prometheus) checkAlerts(t *testing.T) {
	t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := json.Unmarshal([]byte(p.get(t, "/api/v1/rules")), &answer); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, group := range answer.Data.Groups {
		for _, r := range group.Rules {
			count++
			if r.Health != "ok" {
				t.Errorf("%s: %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if alerts, _ := readRules(t); count != len(alerts) {
		t.Errorf("%d alerts are evaluated, want %d", count, len(alerts))
	}
}
