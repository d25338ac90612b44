package gateway_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/gateway"
)

// drip sends a request with a valid token, of which the body never ends: one octet at a time.
func (w *world) drip(deployment, length string) {
	w.Helper()
	conn := w.raw(attacker, deployment)
	_, err := fmt.Fprintf(conn, "POST /cubejs-api/v1/load HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n%s\r\n\r\n", w.host(deployment), w.token(deployment), length)
	if err != nil {
		w.Fatal(err)
	}
	octet := "{"
	if length == chunked {
		octet = "1\r\n{\r\n"
	}
	go func() {
		for {
			if _, err := io.WriteString(conn, octet); err != nil { // when the test or the gateway closes the connection
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
}

const chunked = "Transfer-Encoding: chunked"

// TestSlowBodiesWithAToken: a tenant with a valid token sends as many requests as a deployment may have in progress, and their
// bodies an octet at a time. The gateway reads short bodies before it sends the request to the pod, and forwards long ones and
// those of unknown length while they arrive. It ends all of them by itself, and other users of the deployment are served.
func TestSlowBodiesWithAToken(t *testing.T) {
	t.Parallel()
	const limit = 4
	w := newWorld(t, func(c *gateway.Config) { c.MaxInFlight = limit })
	pod := w.pod(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	attacks := map[string]string{"short": "Content-Length: 4096", "long": "Content-Length: 1000000", "unknown": chunked}
	names := slices.Sorted(maps.Keys(attacks))
	for _, name := range names {
		w.deploy(name, pod, w.listenAsPod().Addr())
	}
	inFlight := func() float64 { return w.gauge("quoin_gateway_requests_in_flight", "") }
	for _, name := range names {
		for range limit {
			w.drip(name, attacks[name])
		}
	}
	w.eventually("the attack holds all places", func() bool { return inFlight() == float64(limit*len(names)) })
	user := w.client(customer)
	for _, name := range names {
		if status, body := w.get(user, name, "/v1/load"); status != http.StatusTooManyRequests {
			t.Fatalf("%s: a user's request during the attack: %d %s: the attack is too weak for this test", name, status, body)
		}
	}
	for _, name := range names {
		w.eventually("a user of the deployment with bodies of the length "+name+" is served", func() bool {
			status, _ := w.get(user, name, "/v1/load")
			return status == http.StatusOK
		})
	}
	w.eventually("no place is held", func() bool { return inFlight() == 0 })
}
