package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestLeaderOnlyExportsNothingBeforeTheElection(t *testing.T) {
	elected := make(chan struct{})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "some_metric", Help: "A metric."})
	gauge.Set(3)
	registry := prometheus.NewRegistry()
	if err := Register(registry, LeaderOnly(elected, gauge)...); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("before the election: %d series, %v", n, err)
	}
	close(elected)
	if err := testutil.GatherAndCompare(registry, strings.NewReader("# HELP some_metric A metric.\n# TYPE some_metric gauge\nsome_metric 3\n")); err != nil {
		t.Error(err)
	}
}

func TestRegisterAgain(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "some_metric", Help: "A metric."})
		if err := Register(registry, gauge); err != nil {
			t.Fatal(err)
		}
	}
	other := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "some_metric", Help: "Another metric."}, []string{"kind"})
	if err := Register(registry, other); err == nil {
		t.Error("a metric of the same name with other labels is registered")
	}
}

func TestBuildInfo(t *testing.T) {
	if err := testutil.CollectAndCompare(BuildInfo("gateway", "v1.2.3", "abc"), strings.NewReader("")); err == nil {
		t.Error("no series")
	}
	if n := testutil.CollectAndCount(BuildInfo("gateway", "v1.2.3", "abc"), "quoin_build_info"); n != 1 {
		t.Errorf("%d series, want 1", n)
	}
}
