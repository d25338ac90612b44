package gateway

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/internal/ratelimit"
	"github.com/quoin-dev/quoin/internal/serving"
)

// unauthenticatedShare is the share of a deployment's rate of requests that one client address has
// for requests without a token.
const unauthenticatedShare = 10

// maxAddresses bounds the memory of the rates of client addresses.
const maxAddresses = 8192

// accountShare is the share of all concurrent requests that the deployments of one account have.
const accountShare = 2

// limits are the rate and concurrency limits of each deployment, and the concurrency limits of each
// account. Unauthenticated requests have rates of their own, for each deployment and for each client
// address, and no place of a deployment.
type limits struct {
	perSecond rate.Limit
	burst     int
	inFlight  int
	addresses *ratelimit.Limits[netip.Prefix]
	// accounts limits the requests of each account, by its namespace.
	accounts *serving.Shares[string]

	mu          sync.Mutex
	deployments map[types.NamespacedName]*deploymentLimits
}

type deploymentLimits struct {
	authenticated, unauthenticated *rate.Limiter
	inFlight                       int // guarded by limits
}

// newLimits returns limits for each deployment; total is the limit of all concurrent requests.
func newLimits(perSecond float64, burst, inFlight, total int) *limits {
	return &limits{
		perSecond: rate.Limit(perSecond), burst: burst, inFlight: inFlight, deployments: map[types.NamespacedName]*deploymentLimits{},
		addresses: ratelimit.New[netip.Prefix](perSecond/unauthenticatedShare, max(1, burst/unauthenticatedShare), maxAddresses),
		accounts:  serving.NewShares[string](max(1, total/accountShare)),
	}
}

// acquire admits an authenticated request to a deployment, which ends when done is called, or
// returns the delay after which the caller should retry.
func (l *limits) acquire(deployment types.NamespacedName) (done func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.of(deployment)
	if d.inFlight >= l.inFlight {
		return nil, time.Second
	}
	release := l.accounts.Acquire(deployment.Namespace)
	if release == nil {
		return nil, time.Second
	}
	if !d.authenticated.Allow() {
		release()
		return nil, l.interval()
	}
	d.inFlight++
	return func() {
		release()
		l.mu.Lock()
		defer l.mu.Unlock()
		d.inFlight--
	}, 0
}

// admitUnauthenticated admits an unauthenticated request to a deployment, or returns the delay
// after which the caller should retry. The rate of the address applies first: a client over it does
// not use the rate of the deployment.
func (l *limits) admitUnauthenticated(address netip.Addr, deployment types.NamespacedName) (wait time.Duration) {
	if l.addresses.Take(serving.Network(address), time.Now()) > 0 {
		return l.interval() * unauthenticatedShare
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.of(deployment).unauthenticated.Allow() {
		return l.interval()
	}
	return 0
}

func (l *limits) interval() time.Duration {
	return time.Duration(float64(time.Second) / float64(l.perSecond))
}

func (l *limits) of(deployment types.NamespacedName) *deploymentLimits {
	d := l.deployments[deployment]
	if d == nil {
		d = &deploymentLimits{authenticated: rate.NewLimiter(l.perSecond, l.burst), unauthenticated: rate.NewLimiter(l.perSecond, l.burst)}
		l.deployments[deployment] = d
	}
	return d
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
