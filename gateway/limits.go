package gateway

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// limits bound what each deployment is asked. Those who have shown no token have a bucket of
// their own: they cannot use up what belongs to the others.
type limits struct {
	perSecond rate.Limit
	burst     int
	inFlight  int

	mu   sync.Mutex
	held map[types.NamespacedName]*deploymentLimits
}

type deploymentLimits struct {
	callers, strangers *rate.Limiter
	inFlight           int // guarded by limits
}

func newLimits(perSecond float64, burst, inFlight int) *limits {
	return &limits{perSecond: rate.Limit(perSecond), burst: burst, inFlight: inFlight, held: map[types.NamespacedName]*deploymentLimits{}}
}

// take lets a request to a deployment through, until done is called; or says how long it
// should wait.
func (l *limits) take(deployment types.NamespacedName, stranger bool) (done func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.held[deployment]
	if d == nil {
		d = &deploymentLimits{callers: rate.NewLimiter(l.perSecond, l.burst), strangers: rate.NewLimiter(l.perSecond, l.burst)}
		l.held[deployment] = d
	}
	if d.inFlight >= l.inFlight {
		return nil, time.Second
	}
	bucket := d.callers
	if stranger {
		bucket = d.strangers
	}
	if bucket.Allow() {
		d.inFlight++
		return func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			d.inFlight--
		}, 0
	}
	return nil, time.Duration(float64(time.Second) / float64(l.perSecond))
}

// keep drops what is held of deployments that are gone.
func (l *limits) keep(serves func(namespace, name string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, d := range l.held {
		if d.inFlight == 0 && !serves(name.Namespace, name.Name) {
			delete(l.held, name)
		}
	}
}
