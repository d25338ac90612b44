package audit

import "github.com/prometheus/client_golang/prometheus"

var (
	eventsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quoin_audit_events_total",
		Help: "Audit events stored, by outcome. A change counts as attempted, and again with its outcome.",
	}, []string{"outcome"})
	storeSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:                        "quoin_audit_store_duration_seconds",
		Help:                        "Time that callers waited until audit events were stored.",
		Buckets:                     []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		NativeHistogramBucketFactor: 1.1,
	})
	queueLength = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quoin_audit_queue_length",
		Help: "Audit events in the queue.",
	})
	unavailableTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quoin_audit_unavailable_total",
		Help: "Calls that failed because audit events could not be stored.",
	})
	deletedTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quoin_audit_deleted_total",
		Help: "Audit events deleted by retention.",
	})
	exportedTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quoin_audit_exported_rows_total",
		Help: "Rows of audit events exported.",
	})
)

// Collectors returns the metrics of the audit log.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{eventsTotal, storeSeconds, queueLength, unavailableTotal, deletedTotal, exportedTotal}
}
