package evaluations

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
)

// metrics are those of evaluations.
type metrics struct {
	running       prometheus.Gauge
	runs, results *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "quoin_evaluations_in_progress", Help: "Evaluations of agents that this replica works on."}),
		runs:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_evaluations_total", Help: "Evaluations of agents that have ended, by kind (questions, replay) and state (completed, failed)."}, []string{"kind", "state"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_evaluation_results_total", Help: "Results of evaluations, by kind and verdict: pass, fail, review, error."}, []string{"kind", "verdict"}),
	}
}

// Collectors returns the metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.running, s.metrics.runs, s.metrics.results}
}

func (m *metrics) ended(kind evaluation.Kind, state evaluation.State) {
	m.runs.WithLabelValues(string(kind), string(state)).Inc()
}

func (m *metrics) graded(kind evaluation.Kind, verdict grading.Verdict) {
	m.results.WithLabelValues(string(kind), string(verdict)).Inc()
}
