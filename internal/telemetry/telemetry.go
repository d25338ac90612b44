// Package telemetry registers metrics.
//
// All subcommands are one binary, so a package that registered its metrics when it is imported would
// export them from every process. Instead, packages return their collectors, and the process whose
// state they describe registers them.
package telemetry

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers collectors. Those that are registered already stay, so that a process can start
// its servers again.
func Register(registerer prometheus.Registerer, collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		if err := registerer.Register(c); err != nil && !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// LeaderOnly returns collectors that export nothing until elected is closed. Of several replicas, only
// the leader changes and reports the state of the cluster: values of the others are zero or a copy.
func LeaderOnly(elected <-chan struct{}, collectors ...prometheus.Collector) []prometheus.Collector {
	wrapped := make([]prometheus.Collector, len(collectors))
	for i, c := range collectors {
		wrapped[i] = leaderOnly{c, elected}
	}
	return wrapped
}

type leaderOnly struct {
	prometheus.Collector
	elected <-chan struct{}
}

// Collect implements prometheus.Collector.
func (l leaderOnly) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-l.elected:
		l.Collector.Collect(metrics)
	default:
	}
}

// BuildInfo returns a metric with the version of the binary. component is the subcommand, such as
// "gateway".
func BuildInfo(component, version, commit string) prometheus.Collector {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quoin_build_info",
		Help: "Always 1; the labels describe the component and its build.",
	}, []string{"component", "version", "commit", "go_version"})
	gauge.WithLabelValues(component, version, commit, runtime.Version()).Set(1)
	return gauge
}
