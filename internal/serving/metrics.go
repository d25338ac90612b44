package serving

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// knownMethods are the values of the label method; any other method is "other".
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

type requestMetrics struct {
	total    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newRequestMetrics(registerer prometheus.Registerer) *requestMetrics {
	factory := promauto.With(registerer)
	return &requestMetrics{
		total: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_http_requests_total",
			Help: "Requests by route pattern, method and status code.",
		}, []string{"route", "method", "code"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "quoin_http_request_duration_seconds",
			Help:                        "Duration of requests by route pattern and method.",
			Buckets:                     []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
			NativeHistogramBucketFactor: 1.1,
		}, []string{"route", "method"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{
			Name: "quoin_http_requests_in_flight",
			Help: "Requests in flight.",
		}),
	}
}

// measure records the metrics of requests, including those that panic.
func (m *requestMetrics) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		method := r.Method
		if !slices.Contains(knownMethods, method) {
			method = "other"
		}
		start, panicked := time.Now(), true
		m.inFlight.Inc()
		defer func() {
			m.inFlight.Dec()
			route := "none"
			for _, a := range e.annotated() {
				if a.Key == AnnotationRoute {
					route = a.Value.String()
				}
			}
			m.total.WithLabelValues(route, method, strconv.Itoa(e.outcome(panicked))).Inc()
			m.seconds.WithLabelValues(route, method).Observe(time.Since(start).Seconds())
		}()
		next.ServeHTTP(w, r)
		panicked = false
	})
}
