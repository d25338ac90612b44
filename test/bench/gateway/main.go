// Command gateway measures `quoin gateway` beside Caddy and nginx in front of the same backend, and
// beside the backend itself:
//
//   - requests a second with many connections, with a small and with a large answer
//   - what it adds to a request, over one connection and at a moderate rate
//   - memory with many idle connections
//
// All speak HTTP/1.1 over TLS 1.3 with the same certificate, and write an access log to a file, each
// its own kind. HTTP/1.1 is what the callers of data APIs speak that are programs (Node.js' fetch,
// Python's requests); only browsers speak HTTP/2. The gateway also checks a token, which the others
// pass on. All share the machine with the backend and with this program, which sends the requests,
// and take turns: ratios within a round are what the gateway is worth, requests a second say more
// about the machine.
//
//	make bench-gateway
//	go run ./test/bench/gateway -rounds 1 -time 1s      # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	rounds, connections, idle int
	rate, rateConnections     int
	time                      time.Duration
	quoin, caddy, nginx       string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == backendCommand {
		serveBackend()
		return
	}
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 5, "how `often` all take turns")
	flag.DurationVar(&o.time, "time", 4*time.Second, "how `long` a turn takes")
	flag.IntVar(&o.connections, "connections", 64, "`number` of connections that send as fast as they are answered")
	flag.IntVar(&o.rate, "rate", 1000, "`requests` a second that are a moderate rate")
	flag.IntVar(&o.rateConnections, "rate-connections", 16, "`number` of connections that they are sent over")
	flag.IntVar(&o.idle, "idle", 10_000, "`number` of idle connections while memory is measured; 0 leaves that out")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.StringVar(&o.caddy, "caddy", "", "`binary` of Caddy; built from the pinned module when empty, left out when it is none")
	flag.StringVar(&o.nginx, "nginx", "", "`binary` of nginx; that of the path, else Debian's, when empty, left out when it is none")
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
	began, _, _ := strings.Cut(measure.Load(), " ")
	if err := w.takeTurns(ctx, o, r); err != nil {
		return err
	}
	if err := w.weigh(ctx, o, r); err != nil {
		return err
	}
	ended, _, _ := strings.Cut(measure.Load(), " ")
	fmt.Printf("%d rounds of %s a turn; %d cores, %s %s/%s; load before %s, after %s\n%s\n", o.rounds, o.time,
		runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, began, ended, w.describe())
	fmt.Printf("Only ratios within a round count, most of all where others use the machine too (load before: 0.5 or more)\n\n")
	r.print(os.Stdout)
	return nil
}
