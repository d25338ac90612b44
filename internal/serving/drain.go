package serving

import (
	"net/http"
	"time"
)

// BodyDrainTimeout is the timeout for the body of a request that was rejected without reading it.
const BodyDrainTimeout = 2 * time.Second

// limitDrain sets the deadline for the body of a request that is rejected without reading it. Over
// HTTP/1, net/http reads the rest of a body to reuse the connection; without a deadline, a client
// that does not send it would keep the connection. Over HTTP/2, a rejected request does not keep
// anything.
func limitDrain(w http.ResponseWriter, r *http.Request) {
	if exchangeOf(r.Context()).body != nil {
		return // has deadlines of its own
	}
	if r.ProtoMajor == 1 && r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(BodyDrainTimeout)) // fails only if the client has disconnected
	}
}
