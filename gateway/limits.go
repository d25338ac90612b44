package gateway

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// limits are the rate and concurrency limits of each deployment. Unauthenticated requests have a
// rate limiter of their own, so that they cannot exhaust the one of authenticated requests.
type limits struct {
	perSecond rate.Limit
	burst     int
	inFlight  int

	mu          sync.Mutex
	deployments map[types.NamespacedName]*deploymentLimits
}

type deploymentLimits struct {
	authenticated, unauthenticated *rate.Limiter
	inFlight                       int // guarded by limits
}

func newLimits(perSecond float64, burst, inFlight int) *limits {
	return &limits{perSecond: rate.Limit(perSecond), burst: burst, inFlight: inFlight, deployments: map[types.NamespacedName]*deploymentLimits{}}
}

// acquire admits a request to a deployment, which ends when done is called, or returns the delay
// after which the caller should retry.
func (l *limits) acquire(deployment types.NamespacedName, unauthenticated bool) (done func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.deployments[deployment]
	if d == nil {
		d = &deploymentLimits{authenticated: rate.NewLimiter(l.perSecond, l.burst), unauthenticated: rate.NewLimiter(l.perSecond, l.burst)}
		l.deployments[deployment] = d
	}
	if d.inFlight >= l.inFlight {
		return nil, time.Second
	}
	limiter := d.authenticated
	if unauthenticated {
		limiter = d.unauthenticated
	}
	if limiter.Allow() {
		d.inFlight++
		return func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			d.inFlight--
		}, 0
	}
	return nil, time.Duration(float64(time.Second) / float64(l.perSecond))
}

// prune removes the limits of deployments that no longer exist.
func (l *limits) prune(serves func(namespace, name string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, d := range l.deployments {
		if d.inFlight == 0 && !serves(name.Namespace, name.Name) {
			delete(l.deployments, name)
		}
	}
}
