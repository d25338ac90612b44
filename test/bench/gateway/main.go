// Command gateway measures `quoin gateway`, compared with Caddy and nginx as proxies of the same backend, and with the
// backend itself:
//
//   - throughput with many connections, with small and large responses
//   - added latency, over one connection and at a moderate rate
//   - memory with many idle connections
//
// All proxies use HTTP/1.1 over TLS 1.3 with the same certificate, and write an access log in their own format. Programs
// that call data APIs (Node.js' fetch, Python's requests) use HTTP/1.1; only browsers use HTTP/2. The gateway also checks
// a token, which the others forward. The targets alternate, and share the machine with the backend and with this program,
// which sends the requests: ratios within a round measure the gateway, absolute throughput depends on the machine.
//
//	make bench-gateway BENCH_FLAGS=-docs                # also writes the results into the documentation
//	go run ./test/bench/gateway -rounds 1 -time 1s      # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	rounds, connections, idle int
	rate, rateConnections     int
	time                      time.Duration
	quoin, caddy, nginx       string
	docs                      *bool
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == dataplane.BackendCommand {
		dataplane.ServeBackend()
		return
	}
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.rounds, "rounds", 5, "`number` of rounds")
	flag.DurationVar(&o.time, "time", 4*time.Second, "`duration` of a measurement")
	flag.IntVar(&o.connections, "connections", 64, "`number` of connections that send without pauses")
	flag.IntVar(&o.rate, "rate", 1000, "`requests` a second at the moderate rate")
	flag.IntVar(&o.rateConnections, "rate-connections", 16, "`number` of connections at the moderate rate")
	flag.IntVar(&o.idle, "idle", 10_000, "`number` of idle connections while memory is measured; 0 skips this")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.StringVar(&o.caddy, "caddy", "", "`binary` of Caddy; built from the pinned module if empty, skipped if none")
	flag.StringVar(&o.nginx, "nginx", "", "`binary` of nginx; if empty that of $PATH, or else Debian's; skipped if none")
	flag.Parse()
	process.Main("gateway", func(ctx context.Context) error {
		if err := o.check(); err != nil {
			return err
		}
		return controlplane.WithAPIServer("gateway", func(server *controlplane.APIServer) error { return run(ctx, o, server) })
	})
}

func (o options) check() error {
	if o.time < 100*time.Millisecond {
		return errors.New("-time must be 100ms or more")
	}
	return process.CheckFlags(map[string]int{"rounds": 1, "connections": 1, "rate": 1, "rate-connections": 1, "idle": 0})
}

func run(ctx context.Context, o options, server *controlplane.APIServer) error {
	results, err := measure.OpenResults("gateway", *o.docs)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o, server)
	if err != nil {
		return err
	}
	r := &report{options: o}
	if r.skipped, err = w.startPeers(ctx, o); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return err
	}
	if err := w.runRounds(ctx, o, r); err != nil {
		return err
	}
	if err := w.measureMemory(ctx, o, r); err != nil {
		return err
	}
	return results.Publish(fmt.Sprintf("%d rounds, %s a measurement; %s", o.rounds, o.time, w.describe()), r.print)
}
