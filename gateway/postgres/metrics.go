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
