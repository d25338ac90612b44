package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-dev/quoin/gateway/route"
)

// TestDeploymentMetrics: requests are counted by deployment and class of status, without allocations, and a deployment that is
// no longer served has no series.
func TestDeploymentMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newDeploymentMetrics(registry)
	sales := route.Environment{Account: "acme", Namespace: "tenant-acme", Name: "sales-production", Deployment: "sales"}
	other := route.Environment{Account: "beta", Namespace: "tenant-beta", Name: "sales-production", Deployment: "sales"}
	for _, status := range []int{200, 204, 503, 0} {
		m.count(sales, status, time.Second)
	}
	m.count(other, 404, time.Second)
	const name = "quoin_gateway_deployment_requests_total"
	expect := func(want string) {
		t.Helper()
		text := "# HELP " + name + " Requests by account, deployment and class of the status: 2xx, 4xx, 5xx or other.\n# TYPE " + name + " counter\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text+want), name); err != nil {
			t.Error(err)
		}
	}
	line := func(account, class, value string) string {
		return name + `{account="` + account + `",class="` + class + `",deployment="sales"} ` + value + "\n"
	}
	acme := line("acme", "2xx", "2") + line("acme", "4xx", "0") + line("acme", "5xx", "1") + line("acme", "other", "1")
	beta := line("beta", "2xx", "0") + line("beta", "4xx", "1") + line("beta", "5xx", "0") + line("beta", "other", "0")
	expect(acme + beta)
	if n := testing.AllocsPerRun(100, func() { m.count(sales, 200, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations for each request", n)
	}
	m.prune(func(namespace, _ string) bool { return namespace == "tenant-beta" })
	expect(beta)

	// The namespace is now that of another account.
	moved := other
	moved.Account = "gamma"
	m.count(moved, 200, time.Second)
	if n := testutil.CollectAndCount(m.total); n != len(classes) {
		t.Errorf("%d series after the account has changed, want %d", n, len(classes))
	}
}
