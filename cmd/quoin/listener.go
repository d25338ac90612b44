package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// listenerFlags are the flags of the servers: `quoin apiserver` and `quoin gateway`.
type listenerFlags struct {
	kubeconfig             string
	https, probes, metrics string // addresses
	namespace, service     string
	certFile, keyFile      string
	trustedProxies         string
	networks               []netip.Prefix // trustedProxies, parsed
	requestsPerSecond      float64
	burst                  int
	shutdownDelay          time.Duration
	watchNamespaces        tenant.Namespaces
	tracing                tracingFlags
	log                    logFlags
}

// listenerUsage are the parts of the flags' usage that depend on the subcommand.
type listenerUsage struct {
	service string // default of --service
	serves  string // the APIs that it serves
	limits  string // the scope of --requests-per-second and --burst
}

func (l *listenerFlags) register(fs *flag.FlagSet, usage listenerUsage) {
	registerKubeconfig(fs, &l.kubeconfig)
	fs.StringVar(&l.https, "bind-address", ":8443", "`address` of "+usage.serves+", over HTTPS")
	fs.StringVar(&l.metrics, "metrics-bind-address", ":8080", "`address` of the metrics, over HTTPS with authentication and authorization; 0 disables them")
	fs.StringVar(&l.probes, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 disables them")
	fs.StringVar(&l.namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "quoin-system"), "quoin's own `namespace`, which contains the certificate's Secret")
	fs.StringVar(&l.service, "service", usage.service, "`name` of the Service in that namespace, which the generated certificate includes")
	fs.StringVar(&l.certFile, "tls-cert-file", "", "certificate `file`, reloaded when it changes; a certificate is generated and renewed when empty")
	fs.StringVar(&l.keyFile, "tls-key-file", "", "`file` with the certificate's key")
	fs.StringVar(&l.trustedProxies, "trusted-proxies", "", "`networks` such as 10.0.0.0/8,fd00::/8 whose X-Forwarded-For is trusted")
	fs.Float64Var(&l.requestsPerSecond, "requests-per-second", 100, "average `requests` per second, "+usage.limits)
	fs.IntVar(&l.burst, "burst", 200, "burst of `requests`, "+usage.limits)
	fs.DurationVar(&l.shutdownDelay, "shutdown-delay", 5*time.Second, "`duration` for which requests are accepted after /readyz fails at shutdown")
	registerWatchNamespaces(fs, &l.watchNamespaces)
	l.tracing.register(fs)
	l.log.register(fs)
}

// validate parses the networks and returns the problem with the flags, or ""; own is the problem
// with the subcommand's own flags.
func (l *listenerFlags) validate(own string) string {
	switch {
	case (l.certFile == "") != (l.keyFile == ""):
		return "--tls-cert-file and --tls-key-file must be set together"
	case l.requestsPerSecond <= 0 || l.burst < 1:
		return "--requests-per-second must be more than 0, --burst 1 or more"
	case own != "":
		return own
	}
	if problem := cmp.Or(checkWatchNamespaces(l.watchNamespaces, l.namespace), l.tracing.validate()); problem != "" {
		return problem
	}
	var err error
	if l.networks, err = parseNetworks(l.trustedProxies); err != nil {
		return "--trusted-proxies: " + err.Error()
	}
	return ""
}

// trace calls work with a tracer and the client configuration of a server, and exports the last spans when
// work has returned. Requests to the Kubernetes API server belong to the trace that causes them.
func (l *listenerFlags) trace(ctx context.Context, name string, log *slog.Logger, work func(*rest.Config, *tracing.Tracer) error) error {
	config, err := restConfig(l.kubeconfig, name)
	if err != nil {
		return err
	}
	return l.tracing.trace(ctx, name, log, config, func(tracer *tracing.Tracer) error { return work(config, tracer) })
}

// endpoints returns the addresses to listen on.
func (l *listenerFlags) endpoints() (https, probes, metrics serving.Endpoint) {
	return serving.Endpoint{Address: l.https}, serving.Endpoint{Address: l.probes}, serving.Endpoint{Address: l.metrics}
}

// parseNetworks parses a comma-separated list of networks.
func parseNetworks(list string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for network := range strings.SplitSeq(list, ",") {
		if network = strings.TrimSpace(network); network == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8", network)
		}
		networks = append(networks, prefix)
	}
	return networks, nil
}
