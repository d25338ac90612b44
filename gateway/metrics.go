package gateway

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// What became of a request: values of the label outcome.
const (
	outcomeServed       = "served"       // a pod has answered, whatever it said
	outcomeDerived      = "derived"      // answered from a pod's metadata
	outcomePreflight    = "preflight"    // answered for an environment without a pod
	outcomeNoRoute      = "no_route"     // no such host, path or branch
	outcomeUnauthorized = "unauthorized" // no token, or none of this environment
	outcomeForbidden    = "forbidden"    // a metadata token for something else
	outcomeLimited      = "limited"      // too many requests
	outcomeUnavailable  = "unavailable"  // no pod, or no credentials to check with
	outcomeFailed       = "failed"       // a pod did not answer
	outcomeAborted      = "aborted"      // the caller has gone or sent too much
)

// kindNone is the kind of environment of a request that is for none.
const kindNone = "none"

type requestMetrics struct {
	total    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newRequestMetrics(registerer prometheus.Registerer) *requestMetrics {
	factory := promauto.With(registerer)
	return &requestMetrics{
		total: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_gateway_requests_total",
			Help: "Requests answered, by the kind of environment, what became of them and status code.",
		}, []string{"kind", "outcome", "code"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "quoin_gateway_request_duration_seconds",
			Help:                        "How long requests took, waiting for a pod included, by the kind of environment.",
			Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
			NativeHistogramBucketFactor: 1.1,
		}, []string{"kind"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{
			Name: "quoin_gateway_requests_in_flight",
			Help: "Requests that are being answered, WebSockets included.",
		}),
	}
}

func (m *requestMetrics) count(kind, outcome string, status int, took time.Duration) {
	m.total.WithLabelValues(kind, outcome, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(kind).Observe(took.Seconds())
}
