package deployment

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
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
)

func init() { metrics.Registry.MustRegister(rolloutsTotal, rolloutSeconds) }
