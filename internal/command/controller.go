// Package command holds the subcommands of quoin: flags in, exit code out.
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/controllers"
)

// Leader election is generous: a slow API server must not cost the leadership. After a
// crash another replica takes over within leaseDuration; after a normal end at once.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 12 * time.Second
	retryPeriod   = 3 * time.Second
)

type controllerFlags struct {
	kubeconfig     string
	leaderElect    bool
	metricsAddress string
	probeAddress   string
	log            logFlags
	config         controllers.Config
}

// Controller runs `quoin controller`.
func Controller(ctx context.Context, args []string, _, stderr io.Writer) int {
	f, err := parseControllerFlags(args, stderr)
	return start("quoin controller", stderr, err, &f.log, func(logr.Logger) error { return runController(ctx, f) })
}

// start runs what serves until it is told to end: flags that were parsed in, exit code out.
func start(name string, stderr io.Writer, parsed error, l *logFlags, work func(logr.Logger) error) int {
	if errors.Is(parsed, flag.ErrHelp) {
		return 0
	}
	if parsed != nil {
		return 2
	}
	logger, err := l.logger(stderr)
	if err != nil {
		fmt.Fprintln(stderr, name+":", err)
		return 2
	}
	log.SetLogger(logger)
	klog.SetLogger(logger)
	if err := work(logger); err != nil {
		logger.Error(err, "Cannot go on")
		return 1
	}
	return 0
}

func parseControllerFlags(args []string, stderr io.Writer) (*controllerFlags, error) {
	f := &controllerFlags{}
	fs := flag.NewFlagSet("quoin controller", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig `file`; the pod's service account when empty")
	fs.BoolVar(&f.leaderElect, "leader-elect", true, "let one of several replicas work at a time")
	fs.StringVar(&f.metricsAddress, "metrics-bind-address", ":8443", "`address` of the metrics, over HTTPS and for those who may read them; 0 for none")
	fs.StringVar(&f.probeAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 for none")
	fs.StringVar(&f.config.Namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "quoin-system"), "the controller's own `namespace`")
	fs.StringVar(&f.config.Image, "quoin-image", os.Getenv("QUOIN_IMAGE"), "`image` of quoin, which fetches models from Git in the pods")
	fs.IntVar(&f.config.Concurrency, "concurrency", 10, "`objects` of a kind that are reconciled at once")
	fs.IntVar(&f.config.MaxRollouts, "max-concurrent-rollouts", 10, "`deployments` that roll out at once; 0 for any number")
	fs.BoolVar(&f.config.AllowInsecureGit, "allow-insecure-git", false, "allow http:// for Git repositories: for tests and closed networks")
	fs.BoolVar(&f.config.WarmUp, "warm-up", false, "have API pods compile their data model before they are ready; needs the RoleBinding quoin-account in the accounts' namespaces")
	f.log.register(fs)
	if err := fs.Parse(args); err != nil {
		return f, err
	}
	problem := ""
	switch {
	case fs.NArg() > 0:
		problem = fmt.Sprintf("unexpected argument %q", fs.Arg(0))
	case f.config.Concurrency < 1:
		problem = fmt.Sprintf("--concurrency is %d, must be 1 or more", f.config.Concurrency)
	case f.config.MaxRollouts < 0:
		problem = fmt.Sprintf("--max-concurrent-rollouts is %d, must be 0 or more", f.config.MaxRollouts)
	}
	if problem != "" {
		fmt.Fprintln(stderr, "quoin controller:", problem)
		return f, errors.New(problem)
	}
	return f, nil
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quoin-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quoin-system,resources=leases,resourceNames=quoin-controller,verbs=get;update

func runController(ctx context.Context, f *controllerFlags) error {
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "quoin-controller"
	// The API server's own priority and fairness decides who waits.
	config.QPS = -1
	lease, renew, retry := leaseDuration, renewDeadline, retryPeriod
	return controllers.Run(ctx, config, manager.Options{
		Metrics: metricsserver.Options{
			BindAddress: f.metricsAddress, SecureServing: true,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		HealthProbeBindAddress:        f.probeAddress,
		LeaderElection:                f.leaderElect,
		LeaderElectionID:              "quoin-controller",
		LeaderElectionNamespace:       f.config.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	}, f.config)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no --kubeconfig and not in a pod: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	return config, nil
}

// logFlags say how much is logged and in which form.
type logFlags struct{ level, format string }

func (l *logFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&l.level, "log-level", "info", "`level` of the log: debug, info, warn or error")
	fs.StringVar(&l.format, "log-format", "json", "`format` of the log: json or text")
}

func (l *logFlags) logger(w io.Writer) (logr.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level is %q, must be debug, info, warn or error", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(w, options)), nil
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(w, options)), nil
	}
	return logr.Logger{}, fmt.Errorf("--log-format is %q, must be json or text", l.format)
}
