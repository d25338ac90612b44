package serving

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
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
		method := methodOf(r)
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

// maxScrapes is the maximum number of concurrent scrapes. Prometheus servers are few, and a scrape
// reads all metrics.
const maxScrapes = 4

// metrics returns the handler of the metrics, or nil if they are disabled.
func (o Options) metrics(l net.Listener) (http.Handler, error) {
	if l == nil {
		return nil, nil
	}
	if o.Gatherer == nil || o.AuthorizeMetrics == nil {
		return nil, errors.New("no metrics to serve, or no authorization of their clients")
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	mux.HandleFunc("/", notFound)
	authorized, err := o.AuthorizeMetrics(mux)
	if err != nil {
		return nil, fmt.Errorf("authorize clients of the metrics: %w", err)
	}
	return authorized, nil
}

// metricsTLS returns the TLS configuration of the metrics: the certificate of HTTPS, and HTTP/1.1 only.
func (o Options) metricsTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.GetCertificate, NextProtos: []string{"http/1.1"}}
}

// AuthorizeByReview returns an Options.AuthorizeMetrics that authenticates bearer tokens with a
// TokenReview and authorizes the verb and the path with a SubjectAccessReview, like the metrics of
// `quoin controller`. Results are cached.
func AuthorizeByReview(config *rest.Config, client *http.Client, log *slog.Logger) func(http.Handler) (http.Handler, error) {
	return func(next http.Handler) (http.Handler, error) {
		filter, err := filters.WithAuthenticationAndAuthorization(config, client)
		if err != nil {
			return nil, err
		}
		return filter(logr.FromSlogHandler(cmp.Or(log, slog.Default()).Handler()), next)
	}
}
