package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics of requests to pods.
type Metrics struct {
	Retries     *prometheus.CounterVec
	Waiting     prometheus.Gauge
	Connections prometheus.Gauge
}

// NewMetrics creates the metrics and registers them; a nil registerer is allowed.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	factory := promauto.With(registerer)
	return &Metrics{
		Retries: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_gateway_retries_total",
			Help: "Requests to pods that were retried, by reason: unreachable, unsent, unanswered or draining.",
		}, []string{"reason"}),
		Waiting: factory.NewGauge(prometheus.GaugeOpts{
			Name: "quoin_gateway_waiting_requests",
			Help: "Requests and SQL connections that wait for a pod to be ready.",
		}),
		Connections: factory.NewGauge(prometheus.GaugeOpts{
			Name: "quoin_gateway_upstream_connections",
			Help: "HTTP connections to pods.",
		}),
	}
}
