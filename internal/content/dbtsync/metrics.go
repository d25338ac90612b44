package dbtsync

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	syncsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quoin_dbt_syncs_total",
		Help: "dbt syncs that this process has ended, by result.",
	}, []string{"result"})
	syncSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "quoin_dbt_sync_duration_seconds",
		Help:    "Time from the start of a dbt sync over REST to its end.",
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
	})
)

// The results of syncs: values of the label result.
const (
	resultSucceeded = "succeeded"
	resultFailed    = "failed"
)

// Collectors returns the metrics of syncs. Their labels have all values from the start, so that
// increase() does not miss the first failure.
func Collectors() []prometheus.Collector {
	syncsTotal.WithLabelValues(resultSucceeded)
	syncsTotal.WithLabelValues(resultFailed)
	return []prometheus.Collector{syncsTotal, syncSeconds}
}

// observe records a sync that has ended.
func observe(s *Sync, now time.Time) {
	result := resultSucceeded
	if s.Status == Failed {
		result = resultFailed
	}
	syncsTotal.WithLabelValues(result).Inc()
	syncSeconds.Observe(max(now.Sub(s.StartedAt), 0).Seconds())
}
