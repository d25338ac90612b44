package apiserver

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/chat"
	"github.com/quoin-dev/quoin/apiserver/dbtobjects"
	"github.com/quoin-dev/quoin/apiserver/githttp"
	"github.com/quoin-dev/quoin/apiserver/mcp"
	"github.com/quoin-dev/quoin/apiserver/rest/model"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/internal/ratelimit"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

const (
	// maxCallers bounds the memory of the rate limits.
	maxCallers = 10_000
	// Of the places of a server, one client address holds at most a tenth before it is authenticated, a
	// caller a tenth, and an account a fifth.
	maxUnauthenticated = serving.DefaultMaxInFlight / 10
	maxOfCaller        = serving.DefaultMaxInFlight / 10
	maxOfAccount       = serving.DefaultMaxInFlight / 5
	// Streams of chats last for minutes and need little: a replica has maxStreams, of which a caller and an account have at most
	// half. They do not count for the limits above.
	maxStreams          = 2000
	maxStreamsOfCaller  = maxStreams / 2
	maxStreamsOfAccount = maxStreams / 2
	// maxConnections limits all connections, of which an account has at most half. Of those on which no request
	// has authenticated, the oldest is closed when there are more than maxPending, or maxPendingOfAddress of a
	// client address.
	maxConnections      = 10_000
	maxPending          = 1000
	maxPendingOfAddress = 100
)

// newConnections returns the limits of connections.
func newConnections(trusted []netip.Prefix, registerer prometheus.Registerer) *serving.Connections {
	set := pending.NewSet(pending.Limits{Total: maxPending, PerAddress: maxPendingOfAddress}, pending.NewMetrics(process, registerer), pending.KindConnection)
	return serving.NewConnections(process, maxConnections, set, serving.NewHandshakes(process, registerer), trusted, registerer)
}

// process is the name of the process in metrics.
const process = "apiserver"

// bodyPace limits the time of bodies.
var bodyPace = serving.Pace{Grace: 10 * time.Second, Rate: 16 << 10, Timeout: time.Minute}

// bodyLimit returns the maximum size of the body of a request; 0 for the default.
func bodyLimit(r *http.Request) int64 {
	return cmp.Or(scim.BodyLimit(r), model.BodyLimit(r), githttp.BodyLimit(r), dbtobjects.BodyLimit(r), signin.BodyLimit(r), mcp.BodyLimit(r), chat.BodyLimit(r))
}

// limits are the limits of authenticated callers.
type limits struct {
	rates *ratelimit.Limits[string]
	// requests are those that are no streams.
	requests, streams shares
}

// shares are the places of callers and of accounts.
type shares struct{ callers, accounts *serving.Shares[string] }

func newShares(ofCaller, ofAccount int) shares {
	return shares{serving.NewShares[string](ofCaller), serving.NewShares[string](ofAccount)}
}

func newLimits(perSecond float64, burst int) *limits {
	return &limits{
		rates:    ratelimit.New[string](perSecond, burst, maxCallers),
		requests: newShares(maxOfCaller, maxOfAccount),
		streams:  newShares(maxStreamsOfCaller, maxStreamsOfAccount),
	}
}

// caller returns the key of a caller. That of a Kubernetes identity is the same in all accounts.
func caller(p *auth.Principal) string {
	account := p.Account
	if p.Kind == auth.KindKubernetes || p.Kind == auth.KindServiceAccount {
		account = ""
	}
	return account + "\x00" + string(p.Kind) + "\x00" + p.ID
}

// admit admits a request of an authenticated caller, which ends when release is called, or responds and
// returns nil.
func (l *limits) admit(w http.ResponseWriter, r *http.Request, p *auth.Principal) (release func()) {
	serving.Authenticated(r, p.Account)
	if wait := l.rates.Take(caller(p), time.Now()); wait > 0 {
		serving.RetryAfter(w, wait)
		serving.WriteError(w, http.StatusTooManyRequests, "too many requests: retry after the time in Retry-After")
		return nil
	}
	places := l.requests
	if chat.IsStream(r) {
		places = l.streams
	}
	leave := places.callers.Acquire(caller(p))
	if leave == nil {
		serving.WriteBusy(w, http.StatusTooManyRequests, "too many concurrent requests of this caller")
		return nil
	}
	leaveAccount := places.accounts.Acquire(p.Account)
	if leaveAccount == nil {
		leave()
		serving.WriteBusy(w, http.StatusTooManyRequests, "too many concurrent requests to this account")
		return nil
	}
	return func() { leave(); leaveAccount() }
}

// wait waits until a request of a caller is admitted, or the context ends.
func (l *limits) wait(ctx context.Context, p *auth.Principal) error {
	for {
		pause := l.rates.Take(caller(p), time.Now())
		if pause == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
