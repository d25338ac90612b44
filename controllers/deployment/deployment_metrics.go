package deployment

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	rolloutsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quoin_deployment_rollouts_total",
		Help: "Rollouts that ended, by result.",
	}, []string{"result"})
	rolloutSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "quoin_deployment_rollout_duration_seconds",
		Help:    "Time from the start of a rollout to its end: the last pod is ready, or the deadline is exceeded.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12),
	})
	fetchesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quoin_git_fetches_total",
		Help: "Reads of the branches of Git repositories, by result.",
	}, []string{"result"})
	fetchesWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quoin_git_fetches_waiting",
		Help: "Reads of the branches of Git repositories that are due and wait for others to end.",
	})
	fetchSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "quoin_git_fetch_duration_seconds",
		Help:    "Duration of reads of the branches of Git repositories.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	})
)

// rolloutsDesc describes the metric of a Fleet.
var rolloutsDesc = prometheus.NewDesc("quoin_deployment_rollouts_in_progress",
	"Rollouts that run, or that wait for a slot or for the results of the first deployments.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(descs chan<- *prometheus.Desc) { descs <- rolloutsDesc }

// Collect implements prometheus.Collector.
func (f *Fleet) Collect(metrics chan<- prometheus.Metric) {
	running, waiting := f.inProgress()
	metrics <- prometheus.MustNewConstMetric(rolloutsDesc, prometheus.GaugeValue, float64(running), "running")
	metrics <- prometheus.MustNewConstMetric(rolloutsDesc, prometheus.GaugeValue, float64(waiting), "waiting")
}

// Collectors returns the metrics of rollouts, of which a Fleet knows those in progress, and of Git repositories. Their labels
// have all values from the start, so that increase() does not miss the first failure.
func Collectors(fleet *Fleet) []prometheus.Collector {
	for _, total := range []*prometheus.CounterVec{rolloutsTotal, fetchesTotal} {
		total.WithLabelValues(resultSucceeded)
		total.WithLabelValues(resultFailed)
	}
	return []prometheus.Collector{fleet, rolloutsTotal, rolloutSeconds, fetchesTotal, fetchesWaiting, fetchSeconds}
}

// observeFetch records a read of a Git repository.
func observeFetch(took time.Duration, err error) {
	result := resultSucceeded
	if err != nil {
		result = resultFailed
	}
	fetchesTotal.WithLabelValues(result).Inc()
	fetchSeconds.Observe(took.Seconds())
}
