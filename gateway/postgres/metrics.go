package postgres

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of the SQL interface.
type metrics struct {
	open  prometheus.Gauge
	total *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		open: factory.NewGauge(prometheus.GaugeOpts{
			Name: "quoin_gateway_sql_connections",
			Help: "Open SQL connections.",
		}),
		total: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_gateway_sql_connections_total",
			Help: "SQL connections by outcome: served, cancel, refused, unavailable or aborted.",
		}, []string{"outcome"}),
	}
}

// sessionsDesc describes the connections that have logged in. Clients cannot create series: these are of deployments that are
// served, and exist while there are connections.
var sessionsDesc = prometheus.NewDesc("quoin_gateway_deployment_sql_connections",
	"Open SQL connections that have logged in, by account and deployment.", []string{"account", "deployment"}, nil)

// sessions collects the connections of a server that have logged in.
type sessions struct{ *Server }

// Describe implements prometheus.Collector.
func (s sessions) Describe(descs chan<- *prometheus.Desc) { descs <- sessionsDesc }

// Collect implements prometheus.Collector.
func (s sessions) Collect(metrics chan<- prometheus.Metric) {
	type labels struct{ account, deployment string }
	open := map[labels]int{} // the namespace of an account may have changed
	s.mu.Lock()
	for t, n := range s.perDeployment {
		open[labels{t.account, t.deployment}] += n
	}
	s.mu.Unlock()
	for l, n := range open {
		metrics <- prometheus.MustNewConstMetric(sessionsDesc, prometheus.GaugeValue, float64(n), l.account, l.deployment)
	}
}
