package warehouse_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/warehouse/warehousetest"
)

// TestWarehouse queries the warehouse as the samples' user over the network.
func TestWarehouse(t *testing.T) {
	_, environment := warehousetest.Start(t)
	ask := func(password, query string) (string, error) {
		cmd := exec.CommandContext(t.Context(), host.FindProgram("psql"), "--no-psqlrc", "--tuples-only", "--no-align",
			"--host", environment["QUOIN_WAREHOUSE_HOST"], "--port", environment["QUOIN_WAREHOUSE_PORT"],
			"--username", environment["QUOIN_WAREHOUSE_USER"], "--dbname", environment["QUOIN_WAREHOUSE_DATABASE"], "--command", query)
		cmd.Env = append(process.CleanEnvironment(os.Environ()), "PGPASSWORD="+password)
		output, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(output)), err
	}
	query := "SELECT status, count(*), sum(amount) FROM public.orders GROUP BY status ORDER BY status"
	want := "completed|100|27149.00\nprocessing|100|25249.00\nshipped|100|23449.00"
	if got, err := ask(environment["QUOIN_WAREHOUSE_PASSWORD"], query); err != nil || got != want {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
	tables := "SELECT (SELECT count(*) FROM raw.customers), (SELECT count(*) FROM raw.orders), (SELECT count(*) FROM raw.payments)"
	if got, err := ask(environment["QUOIN_WAREHOUSE_PASSWORD"], tables); err != nil || got != "50|200|300" {
		t.Errorf("the sources of dbt: %q, error %v", got, err)
	}
	if got, err := ask("wrong", query); err == nil || !strings.Contains(got, "password authentication failed") {
		t.Errorf("with the wrong password: %q, error %v", got, err)
	}
}
