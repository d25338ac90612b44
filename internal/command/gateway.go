package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/quoin-dev/quoin/gateway"
	"github.com/quoin-dev/quoin/internal/serving"
)

type gatewayFlags struct {
	kubeconfig     string
	listen         string
	sql            string
	probes         string
	metrics        string
	trustedProxies string
	log            logFlags
	config         gateway.Config
}

// Gateway runs `quoin gateway`.
func Gateway(ctx context.Context, args []string, _, stderr io.Writer) int {
	f, err := parseGatewayFlags(args, stderr)
	return start("quoin gateway", stderr, err, &f.log, func(logger logr.Logger) error {
		config, err := restConfig(f.kubeconfig)
		if err != nil {
			return err
		}
		config.UserAgent = "quoin-gateway"
		config.QPS = -1
		f.config.Log = slog.New(logr.ToSlogHandler(logger))
		return gateway.Run(ctx, config, f.config)
	})
}

func parseGatewayFlags(args []string, stderr io.Writer) (*gatewayFlags, error) {
	f := &gatewayFlags{}
	fs := flag.NewFlagSet("quoin gateway", flag.ContinueOnError)
	fs.SetOutput(stderr)
	f.register(fs)
	if err := fs.Parse(args); err != nil {
		return f, err
	}
	problem := f.problem(fs)
	if problem == "" {
		var err error
		if f.config.TrustedProxies, err = parseNetworks(f.trustedProxies); err != nil {
			problem = "--trusted-proxies: " + err.Error()
		}
	}
	if problem != "" {
		fmt.Fprintln(stderr, "quoin gateway:", problem)
		return f, errors.New(problem)
	}
	f.config.HTTPS = serving.Endpoint{Address: f.listen}
	f.config.SQL = serving.Endpoint{Address: f.sql}
	f.config.Probes = serving.Endpoint{Address: f.probes}
	f.config.Metrics = serving.Endpoint{Address: f.metrics}
	return f, nil
}

func (f *gatewayFlags) register(fs *flag.FlagSet) {
	c := &f.config
	fs.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig `file`; the pod's service account when empty")
	fs.StringVar(&f.listen, "bind-address", ":8443", "`address` of the data APIs, over HTTPS")
	fs.StringVar(&f.sql, "sql-bind-address", ":5432", "`address` of the SQL interfaces, PostgreSQL over TLS; 0 for none")
	fs.StringVar(&f.metrics, "metrics-bind-address", "127.0.0.1:8080", "`address` of the metrics, over plain HTTP and for everybody who reaches it; 0 for none")
	fs.StringVar(&f.probes, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 for none")
	fs.StringVar(&c.Namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "quoin-system"), "quoin's own `namespace`, where the certificate is kept")
	fs.StringVar(&c.Service, "service", "quoin-gateway", "`name` of the Service in that namespace, for which the certificate is made too")
	fs.StringVar(&c.CertFile, "tls-cert-file", "", "certificate `file`, read again when it changes; one is made and renewed when empty")
	fs.StringVar(&c.KeyFile, "tls-key-file", "", "`file` with the certificate's key")
	fs.StringVar(&f.trustedProxies, "trusted-proxies", "", "`networks` such as 10.0.0.0/8,fd00::/8 whose X-Forwarded-For is believed")
	fs.Float64Var(&c.RequestsPerSecond, "requests-per-second", 100, "`requests` a second that each deployment takes on average")
	fs.IntVar(&c.Burst, "burst", 200, "`requests` that each deployment takes at once")
	fs.IntVar(&c.MaxInFlight, "max-in-flight", 1000, "`requests` to each deployment that are answered at a time, WebSockets included")
	fs.IntVar(&c.MaxRequests, "max-requests", 10000, "`requests` that are answered at a time, in all")
	fs.IntVar(&c.MaxSQLConnections, "max-sql-connections", 200, "SQL `connections` to each deployment that are open at a time")
	fs.DurationVar(&c.WaitTimeout, "wait-timeout", 30*time.Second, "how `long` a request waits for a pod while there is none")
	fs.IntVar(&c.MaxWaiting, "max-waiting", 200, "`requests` that wait for the pods of one environment at a time")
	fs.DurationVar(&c.ShutdownDelay, "shutdown-delay", 5*time.Second, "how `long` requests are still taken after /readyz has turned")
	fs.DurationVar(&c.DrainTimeout, "drain-timeout", 30*time.Second, "how `long` what runs may take after that before it is cut")
	f.log.register(fs)
}

// problem says what is wrong with the flags.
func (f *gatewayFlags) problem(fs *flag.FlagSet) string {
	c := &f.config
	switch {
	case fs.NArg() > 0:
		return fmt.Sprintf("unexpected argument %q", fs.Arg(0))
	case (c.CertFile == "") != (c.KeyFile == ""):
		return "--tls-cert-file and --tls-key-file go together"
	case c.RequestsPerSecond <= 0 || c.Burst < 1:
		return "--requests-per-second must be more than 0, --burst 1 or more"
	case c.MaxInFlight < 1 || c.MaxRequests < 1 || c.MaxSQLConnections < 1:
		return "--max-in-flight, --max-requests and --max-sql-connections must be 1 or more"
	case c.WaitTimeout < 0 || c.MaxWaiting < 0:
		return "--wait-timeout and --max-waiting must be 0 or more"
	case c.ShutdownDelay < 0 || c.DrainTimeout <= 0:
		return "--shutdown-delay must be 0 or more, --drain-timeout more than 0"
	}
	return ""
}

// parseNetworks reads networks with commas between them.
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
