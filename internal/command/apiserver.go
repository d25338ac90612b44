package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/internal/serving"
)

type apiserverFlags struct {
	kubeconfig     string
	listen         string
	probes         string
	metrics        string
	trustedProxies string
	log            logFlags
	config         apiserver.Config
}

// APIServer runs `quoin apiserver`.
func APIServer(ctx context.Context, args []string, _, stderr io.Writer) int {
	f, err := parseAPIServerFlags(args, stderr)
	return start("quoin apiserver", stderr, err, &f.log, func(logger logr.Logger) error {
		config, err := restConfig(f.kubeconfig)
		if err != nil {
			return err
		}
		config.UserAgent = "quoin-apiserver"
		config.QPS = -1
		f.config.Log, f.config.Version = slog.New(logr.ToSlogHandler(logger)), version
		return apiserver.Run(ctx, config, f.config)
	})
}

func parseAPIServerFlags(args []string, stderr io.Writer) (*apiserverFlags, error) {
	f := &apiserverFlags{}
	fs := flag.NewFlagSet("quoin apiserver", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig `file`; the pod's service account when empty")
	fs.StringVar(&f.listen, "bind-address", ":8443", "`address` of the APIs, over HTTPS")
	fs.StringVar(&f.metrics, "metrics-bind-address", "127.0.0.1:8080", "`address` of the metrics, over plain HTTP and for everybody who reaches it; 0 for none")
	fs.StringVar(&f.probes, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 for none")
	fs.StringVar(&f.config.Namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "quoin-system"), "quoin's own `namespace`, where the certificate is kept")
	fs.StringVar(&f.config.Service, "service", "quoin-apiserver", "`name` of the Service in that namespace, for which the certificate is made too")
	fs.StringVar(&f.config.CertFile, "tls-cert-file", "", "certificate `file`, read again when it changes; one is made and renewed when empty")
	fs.StringVar(&f.config.KeyFile, "tls-key-file", "", "`file` with the certificate's key")
	fs.StringVar(&f.trustedProxies, "trusted-proxies", "", "`networks` such as 10.0.0.0/8,fd00::/8 whose X-Forwarded-For is believed")
	fs.StringVar(&f.config.Region.Name, "region", "local", "`name` of the region that this cluster is")
	fs.StringVar(&f.config.Region.Title, "region-title", "", "`name` of the region shown to people; that of --region when empty")
	fs.BoolVar(&f.config.Aggregation, "aggregation", true, "serve behind the Kubernetes API too (APIService v1.api.platform.quoin.dev)")
	fs.Float64Var(&f.config.RequestsPerSecond, "requests-per-second", 100, "`requests` a second that one caller may send on average")
	fs.IntVar(&f.config.Burst, "burst", 200, "`requests` that one caller may send at once")
	fs.DurationVar(&f.config.ShutdownDelay, "shutdown-delay", 5*time.Second, "how `long` requests are still taken after /readyz has turned")
	f.log.register(fs)
	if err := fs.Parse(args); err != nil {
		return f, err
	}
	problem := ""
	switch {
	case fs.NArg() > 0:
		problem = fmt.Sprintf("unexpected argument %q", fs.Arg(0))
	case (f.config.CertFile == "") != (f.config.KeyFile == ""):
		problem = "--tls-cert-file and --tls-key-file go together"
	case f.config.RequestsPerSecond <= 0 || f.config.Burst < 1:
		problem = "--requests-per-second must be more than 0, --burst 1 or more"
	case f.config.Region.Name == "":
		problem = "--region must not be empty"
	}
	if problem == "" {
		var err error
		if f.config.TrustedProxies, err = parseNetworks(f.trustedProxies); err != nil {
			problem = "--trusted-proxies: " + err.Error()
		}
	}
	if problem != "" {
		fmt.Fprintln(stderr, "quoin apiserver:", problem)
		return f, errors.New(problem)
	}
	f.config.Region.Title = cmp.Or(f.config.Region.Title, f.config.Region.Name)
	f.config.HTTPS = serving.Endpoint{Address: f.listen}
	f.config.Probes = serving.Endpoint{Address: f.probes}
	f.config.Metrics = serving.Endpoint{Address: f.metrics}
	return f, nil
}
