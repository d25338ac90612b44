package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// The durations of leader election. After a crash, another replica takes over within 19 seconds: it
// observes the last renewal, and later the expired lease, up to 2.2 retry periods late (client-go adds
// a jitter of up to 1.2). After a normal shutdown it takes over immediately.
const (
	leaseDuration = 12 * time.Second
	renewDeadline = 9 * time.Second
	retryPeriod   = 1500 * time.Millisecond
)

type controllerFlags struct {
	kubeconfig     string
	leaderElect    bool
	metricsAddress string
	probeAddress   string
	sqlPort        int
	tracing        tracingFlags
	log            logFlags
	config         controllers.Config
}

// runControllers runs `quoin controller`.
func runControllers(ctx context.Context, args []string, _, stderr io.Writer) int {
	f, err := parseControllerFlags(args, stderr)
	return start("quoin controller", stderr, err, &f.log, func(l logr.Logger) error { return runController(ctx, f, slog.New(logr.ToSlogHandler(l))) })
}

func parseControllerFlags(args []string, stderr io.Writer) (*controllerFlags, error) {
	f := &controllerFlags{}
	fs := newFlagSet("quoin controller", stderr)
	registerKubeconfig(fs, &f.kubeconfig)
	fs.BoolVar(&f.leaderElect, "leader-elect", true, "elect a leader, so that one replica is active at a time")
	fs.StringVar(&f.metricsAddress, "metrics-bind-address", ":8443", "`address` of the metrics, over HTTPS with authentication and authorization; 0 disables them")
	fs.StringVar(&f.probeAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 disables them")
	fs.StringVar(&f.config.Namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "quoin-system"), "the controller's own `namespace`")
	fs.StringVar(&f.config.Image, "quoin-image", os.Getenv("QUOIN_IMAGE"), "`image` of quoin, which fetches models from Git in the pods")
	fs.IntVar(&f.config.Concurrency, "concurrency", 10, "maximum concurrent reconciles of `objects` of each kind, and twice as many of environments; each account has half of them at most")
	fs.IntVar(&f.config.MaxRollouts, "max-concurrent-rollouts", 10, "maximum concurrent rollouts of `deployments`; 0 for no limit")
	fs.IntVar(&f.sqlPort, "sql-port", 5432, "`port` of the SQL interfaces that clients connect to, shown in the status of environments: that of the gateway's Service")
	fs.BoolVar(&f.config.AllowInsecureGit, "allow-insecure-git", false, "allow http:// for Git repositories: for tests and isolated networks")
	fs.StringVar(&f.config.RepositoryURL, "repository-url", "", "`URL` of quoin apiserver for the controller and the pods, such as https://quoin-apiserver.quoin-system.svc; deployments with spec.model.repository need it")
	fs.StringVar(&f.config.DbtImage, "dbt-image", "", "`image` with dbt, for dbt syncs of Git repositories; needs --repository-url and the RoleBinding quoin-account-controller in the accounts' namespaces; none when empty")
	fs.StringVar(&f.config.Region, "region", "local", "`name` of the region of this cluster, for subjects of OpenID Connect tokens: that of quoin apiserver")
	fs.BoolVar(&f.config.WarmUp, "warm-up", false, "API pods compile their data model before they are ready; needs the RoleBinding quoin-account in the accounts' namespaces")
	registerWatchNamespaces(fs, &f.config.WatchNamespaces)
	f.tracing.register(fs)
	f.log.register(fs)
	err := parse(fs, args, f.validate)
	f.config.SQLPort = int32(f.sqlPort) //nolint:gosec // validated
	return f, err
}

// validate returns the problem with the flags, or "".
func (f *controllerFlags) validate() string {
	switch {
	case f.config.Image == "":
		return "--quoin-image is required: pods fetch models from Git with it; the environment variable QUOIN_IMAGE sets it too"
	case f.config.Concurrency < 1:
		return fmt.Sprintf("--concurrency is %d, must be 1 or more", f.config.Concurrency)
	case f.config.MaxRollouts < 0:
		return fmt.Sprintf("--max-concurrent-rollouts is %d, must be 0 or more", f.config.MaxRollouts)
	case f.config.RepositoryURL != "" && !isOrigin(f.config.RepositoryURL):
		return fmt.Sprintf("--repository-url is %q, must be https://host or https://host:port", f.config.RepositoryURL)
	case f.config.Region == "":
		return "--region must not be empty"
	case f.sqlPort < 1 || f.sqlPort > 65535:
		return fmt.Sprintf("--sql-port is %d, must be from 1 to 65535", f.sqlPort)
	}
	return cmp.Or(checkWatchNamespaces(f.config.WatchNamespaces, f.config.Namespace), f.tracing.validate())
}

// isOrigin reports whether a text is an HTTPS URL without a path.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && text == "https://"+u.Host
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quoin-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quoin-system,resources=leases,resourceNames=quoin-controller,verbs=get;update

func runController(ctx context.Context, f *controllerFlags, log *slog.Logger) error {
	const name = "quoin-controller"
	config, err := restConfig(f.kubeconfig, name)
	if err != nil {
		return err
	}
	return f.tracing.trace(ctx, name, log, config, func(tracer *tracing.Tracer) error {
		f.config.Tracer = tracer
		return controllers.Run(ctx, config, f.managerOptions(), f.config)
	})
}

func (f *controllerFlags) managerOptions() manager.Options {
	lease, renew, retry := leaseDuration, renewDeadline, retryPeriod
	return manager.Options{
		Metrics: metricsserver.Options{
			BindAddress: f.metricsAddress, SecureServing: true,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
			TLSOpts:        []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
		},
		HealthProbeBindAddress:        f.probeAddress,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              "quoin-controller",
		LeaderElectionNamespace:       f.config.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	}
}
