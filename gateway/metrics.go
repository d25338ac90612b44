package gateway

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Outcomes of requests: values of the label outcome.
const (
	outcomeServed       = "served"       // a pod responded, with any status
	outcomeDerived      = "derived"      // a listing derived from a pod's metadata
	outcomePreflight    = "preflight"    // a preflight that the gateway answers: no pod, or too many
	outcomeNoRoute      = "no_route"     // unknown host, path or branch
	outcomeUnauthorized = "unauthorized" // no token, or none for this environment
	outcomeForbidden    = "forbidden"    // a metadata token for another endpoint
	outcomeLimited      = "limited"      // too many requests
	outcomeUnavailable  = "unavailable"  // no pod, or no credentials to check the token
	outcomeFailed       = "failed"       // no pod responded
	outcomeAborted      = "aborted"      // the client disconnected or exceeded a limit
)

// kindNone is the label kind of requests without an environment.
const kindNone = "none"

type requestMetrics struct {
	total    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	// deployments has the requests to each deployment.
	deployments *deploymentMetrics
}

func newRequestMetrics(registerer prometheus.Registerer) *requestMetrics {
	factory := promauto.With(registerer)
	return &requestMetrics{
		deployments: newDeploymentMetrics(registerer),
		total: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_gateway_requests_total",
			Help: "Requests by kind of environment, outcome and status code.",
		}, []string{"kind", "outcome", "code"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "quoin_gateway_request_duration_seconds",
			Help:                        "Duration of requests, including the wait for a pod, by kind of environment.",
			Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
			NativeHistogramBucketFactor: 1.1,
		}, []string{"kind"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{
			Name: "quoin_gateway_requests_in_flight",
			Help: "Requests in flight, including WebSockets.",
		}),
	}
}

func (m *requestMetrics) count(e *exchange, status int, took time.Duration) {
	m.total.WithLabelValues(e.kind(), e.outcome, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(e.kind()).Observe(took.Seconds())
	if e.target.Deployment != "" {
		m.deployments.count(e.target.Environment, status, took)
	}
}
