package releasechannel

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var scansTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "quoin_releasechannel_scans_total",
	Help: "Scans of image repositories, by result.",
}, []string{"result"})

var stoppedGauge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
	Name: "quoin_releasechannel_stopped_versions",
	Help: "Versions in the lists of channels that are stopped because they failed on the first deployments.",
}, stoppedVersions.total)

// The results of scans: values of the label result.
const (
	scanSucceeded = "succeeded"
	scanFailure   = "failed"
)

// Collectors returns the metrics of channels. Their labels have all values from the start, so that
// increase() does not miss the first failure.
func Collectors() []prometheus.Collector {
	scansTotal.WithLabelValues(scanSucceeded)
	scansTotal.WithLabelValues(scanFailure)
	return []prometheus.Collector{scansTotal, stoppedGauge}
}

// stoppedVersions is the number of stopped versions by channel; the metric is their sum, because
// labels must not contain names.
var stoppedVersions = &sum{byName: map[string]int{}}

type sum struct {
	mu     sync.Mutex
	byName map[string]int
}

func (s *sum) set(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name] = n
	if n == 0 {
		delete(s.byName, name)
	}
}

func (s *sum) total() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, n := range s.byName {
		total += n
	}
	return float64(total)
}
