package gateway

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/gateway/route"
)

// classes are the values of the label class: the class of the status, or "other", such as for a redirect
// or a client that disconnected before there was a status.
var classes = [...]string{"other", "2xx", "4xx", "5xx"}

// classOf returns the index of the class of a status.
func classOf(status int) int {
	switch status / 100 {
	case 2:
		return 1
	case 4:
		return 2
	case 5:
		return 3
	}
	return 0
}

// deploymentMetrics are the requests to each deployment. Only deployments that are served have series:
// clients cannot create others.
type deploymentMetrics struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec

	mu     sync.RWMutex
	series map[types.NamespacedName]*deploymentSeries
}

// deploymentSeries are the series of a deployment, so that a request does not look them up by labels.
type deploymentSeries struct {
	account string
	total   [len(classes)]prometheus.Counter
	seconds prometheus.Observer
}

func newDeploymentMetrics(registerer prometheus.Registerer) *deploymentMetrics {
	factory := promauto.With(registerer)
	return &deploymentMetrics{
		total: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_gateway_deployment_requests_total",
			Help: "Requests by account, deployment and class of the status: 2xx, 4xx, 5xx or other.",
		}, []string{"account", "deployment", "class"}),
		// Without classic buckets: three series for each deployment. Prometheus with native histograms has
		// quantiles, others the mean.
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "quoin_gateway_deployment_request_duration_seconds",
			Help:                            "Duration of requests, including the wait for a pod, by account and deployment.",
			NativeHistogramBucketFactor:     1.2,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"account", "deployment"}),
		series: map[types.NamespacedName]*deploymentSeries{},
	}
}

// count records a request to an environment of a deployment.
func (m *deploymentMetrics) count(e route.Environment, status int, took time.Duration) {
	s := m.of(e)
	s.total[classOf(status)].Inc()
	s.seconds.Observe(took.Seconds())
}

// of returns the series of a deployment.
func (m *deploymentMetrics) of(e route.Environment) *deploymentSeries {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Deployment}
	m.mu.RLock()
	s := m.series[name]
	m.mu.RUnlock()
	if s != nil && s.account == e.Account {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s != nil {
		m.delete(name, s)
	}
	s = &deploymentSeries{account: e.Account, seconds: m.seconds.WithLabelValues(e.Account, e.Deployment)}
	for i, class := range classes {
		s.total[i] = m.total.WithLabelValues(e.Account, e.Deployment, class)
	}
	m.series[name] = s
	return s
}

// prune deletes the series of deployments that are no longer served.
func (m *deploymentMetrics) prune(serves func(namespace, name string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, s := range m.series {
		if !serves(name.Namespace, name.Name) {
			m.delete(name, s)
		}
	}
}

func (m *deploymentMetrics) delete(name types.NamespacedName, s *deploymentSeries) {
	m.seconds.DeleteLabelValues(s.account, name.Name)
	m.total.DeletePartialMatch(prometheus.Labels{"account": s.account, "deployment": name.Name})
	delete(m.series, name)
}
