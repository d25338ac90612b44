package main

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/quoin-dev/quoin/gateway"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tracing"
)

type gatewayFlags struct {
	listenerFlags
	sql    string
	config gateway.Config
}

// serveGateway runs `quoin gateway`.
func serveGateway(ctx context.Context, args []string, _, stderr io.Writer) int {
	f, err := parseGatewayFlags(args, stderr)
	return start("quoin gateway", stderr, err, &f.log, func(logger logr.Logger) error {
		f.config.Log = slog.New(logr.ToSlogHandler(logger))
		return f.trace(ctx, "quoin-gateway", f.config.Log, func(config *rest.Config, tracer *tracing.Tracer) error {
			f.config.Tracer = tracer
			return gateway.Run(ctx, config, f.config)
		})
	})
}

func parseGatewayFlags(args []string, stderr io.Writer) (*gatewayFlags, error) {
	f := &gatewayFlags{}
	fs := newFlagSet("quoin gateway", stderr)
	f.register(fs)
	if err := parse(fs, args, f.validate); err != nil {
		return f, err
	}
	c := &f.config
	c.Namespace, c.Service, c.WatchNamespaces = f.namespace, f.service, f.watchNamespaces
	c.HTTPS, c.Probes, c.Metrics = f.endpoints()
	c.SQL = serving.Endpoint{Address: f.sql}
	c.CertFile, c.KeyFile, c.TrustedProxies = f.certFile, f.keyFile, f.networks
	c.RequestsPerSecond, c.Burst, c.ShutdownDelay = f.requestsPerSecond, f.burst, f.shutdownDelay
	return f, nil
}

func (f *gatewayFlags) register(fs *flag.FlagSet) {
	f.listenerFlags.register(fs, listenerUsage{service: "quoin-gateway", serves: "the data APIs", limits: "for each deployment"})
	c := &f.config
	fs.StringVar(&f.sql, "sql-bind-address", ":5432", "`address` of the SQL interfaces, PostgreSQL over TLS; 0 disables them")
	fs.IntVar(&c.MaxInFlight, "max-in-flight", 1000, "maximum concurrent `requests` to each deployment, including WebSockets")
	fs.IntVar(&c.MaxRequests, "max-requests", 10000, "maximum concurrent `requests` in total")
	fs.IntVar(&c.MaxSQLConnections, "max-sql-connections", 200, "maximum open SQL `connections` to each deployment")
	fs.IntVar(&c.MaxConnections, "max-connections", 20000, "maximum open HTTP `connections` in total; an account has half of them at most")
	fs.IntVar(&c.MaxUnauthenticated, "max-unauthenticated", 1000, "maximum HTTP `connections`, SQL connections and requests that have not authenticated, for each of these; beyond it, the oldest is ended")
	fs.IntVar(&c.MaxUnauthenticatedPerAddress, "max-unauthenticated-per-address", 100, "the same `maximum` for each client address, or /64 network for IPv6; not for --trusted-proxies")
	fs.DurationVar(&c.WaitTimeout, "wait-timeout", 30*time.Second, "maximum `duration` for which a request waits for a ready pod")
	fs.IntVar(&c.MaxWaiting, "max-waiting", 200, "maximum `requests` that wait for the pods of one environment")
	fs.DurationVar(&c.DrainTimeout, "drain-timeout", 30*time.Second, "maximum `duration` for requests in progress at shutdown, after --shutdown-delay")
}

// validate returns the problem with the flags, or "".
func (f *gatewayFlags) validate() string {
	c, own := &f.config, ""
	switch {
	case c.MaxInFlight < 1 || c.MaxRequests < 1 || c.MaxSQLConnections < 1:
		own = "--max-in-flight, --max-requests and --max-sql-connections must be 1 or more"
	case c.MaxConnections < 1 || c.MaxUnauthenticated < 1 || c.MaxUnauthenticatedPerAddress < 1:
		own = "--max-connections, --max-unauthenticated and --max-unauthenticated-per-address must be 1 or more"
	case c.WaitTimeout < 0 || c.MaxWaiting < 0:
		own = "--wait-timeout and --max-waiting must be 0 or more"
	case f.shutdownDelay < 0 || c.DrainTimeout <= 0:
		own = "--shutdown-delay must be 0 or more, --drain-timeout more than 0"
	}
	return f.listenerFlags.validate(own)
}
