package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The operations of the store: values of the label operation.
const (
	operationRead  = "read"
	operationWrite = "write"
)

var (
	operationSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                        "quoin_store_duration_seconds",
		Help:                        "Duration of reads and of transactions with their retries, including the wait for a connection.",
		Buckets:                     []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		NativeHistogramBucketFactor: 1.1,
	}, []string{"operation"})
	unavailableTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quoin_store_unavailable_total",
		Help: "Reads and transactions that failed because the database was not available.",
	}, []string{"operation"})
	openDesc        = prometheus.NewDesc("quoin_store_open", "1 while the database is open, otherwise 0.", []string{}, nil)
	connectionsDesc = prometheus.NewDesc("quoin_store_connections", "Connections to the database by pool and state: in_use or idle.", []string{"pool", "state"}, nil)
	limitDesc       = prometheus.NewDesc("quoin_store_max_connections", "Maximum number of connections of a pool; 0 for no limit.", []string{"pool"}, nil)
	waitsDesc       = prometheus.NewDesc("quoin_store_connection_waits_total", "Operations that waited for a connection of a pool.", []string{"pool"}, nil)
	waitDesc        = prometheus.NewDesc("quoin_store_connection_wait_seconds_total", "Time that operations waited for a connection of a pool.", []string{"pool"}, nil)
)

// Collectors returns the metrics of all stores of the process.
func Collectors() []prometheus.Collector {
	for _, operation := range []string{operationRead, operationWrite} {
		unavailableTotal.WithLabelValues(operation)
	}
	return []prometheus.Collector{operationSeconds, unavailableTotal}
}

// observe measures an operation.
func observe(ctx context.Context, operation string, do func() error) error {
	start := time.Now()
	err := do()
	operationSeconds.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
		unavailableTotal.WithLabelValues(operation).Inc()
	}
	return err
}

// Describe implements prometheus.Collector.
func (d *Database) Describe(descriptions chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{openDesc, connectionsDesc, limitDesc, waitsDesc, waitDesc} {
		descriptions <- desc
	}
}

// Collect implements prometheus.Collector.
func (d *Database) Collect(metrics chan<- prometheus.Metric) {
	s := d.opened.Load()
	if s == nil {
		metrics <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, 0)
		return
	}
	metrics <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, 1)
	for operation, pool := range map[string]*sql.DB{operationRead: s.read, operationWrite: s.write} {
		stats := pool.Stats()
		metrics <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(stats.InUse), operation, "in_use")
		metrics <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(stats.Idle), operation, "idle")
		metrics <- prometheus.MustNewConstMetric(limitDesc, prometheus.GaugeValue, float64(stats.MaxOpenConnections), operation)
		metrics <- prometheus.MustNewConstMetric(waitsDesc, prometheus.CounterValue, float64(stats.WaitCount), operation)
		metrics <- prometheus.MustNewConstMetric(waitDesc, prometheus.CounterValue, stats.WaitDuration.Seconds(), operation)
	}
}
