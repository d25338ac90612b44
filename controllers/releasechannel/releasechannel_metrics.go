package releasechannel

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var scansTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "quoin_releasechannel_scans_total",
	Help: "Scans of image repositories, by result.",
}, []string{"result"})

func init() { metrics.Registry.MustRegister(scansTotal) }
