package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quoin-dev/quoin/internal/heap"
	"github.com/quoin-dev/quoin/internal/masking"
	"github.com/quoin-dev/quoin/internal/processors"
	"github.com/quoin-dev/quoin/internal/telemetry"
	"github.com/quoin-dev/quoin/internal/tenant"
)

func newFlagSet(name string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	return fs
}

func registerKubeconfig(fs *flag.FlagSet, to *string) {
	fs.StringVar(to, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig `file`; the pod's service account when empty")
}

// registerWatchNamespaces adds the flag that restricts a subcommand to namespaces. The caller checks them.
func registerWatchNamespaces(fs *flag.FlagSet, to *tenant.Namespaces) {
	fs.Func("watch-namespaces", "`namespaces` of accounts, separated by commas, to which quoin is restricted; the same for all subcommands; all when empty", func(text string) error {
		*to = nil
		if text != "" {
			*to = strings.Split(text, ",")
		}
		return nil
	})
}

// checkWatchNamespaces returns the problem with the namespaces, or ""; own is that of quoin itself.
func checkWatchNamespaces(namespaces tenant.Namespaces, own string) string {
	if err := namespaces.Check(own); err != nil {
		return "--watch-namespaces: " + err.Error()
	}
	return ""
}

// parse parses and validates the flags, and prints the error.
func parse(fs *flag.FlagSet, args []string, validate func() string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	text := ""
	if fs.NArg() > 0 {
		text = fmt.Sprintf("unexpected argument %q", fs.Arg(0))
	} else {
		text = validate()
	}
	if text == "" {
		return nil
	}
	fmt.Fprintln(fs.Output(), fs.Name()+":", text)
	return errors.New(text)
}

// exitCode returns the exit code for an error of parse, which has been printed.
func exitCode(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	return 2
}

// start sets up logging, runs a server until it ends, and returns the exit code. parsed is the
// result of parse.
func start(name string, stderr io.Writer, parsed error, l *logFlags, work func(logr.Logger) error) int {
	if parsed != nil {
		return exitCode(parsed)
	}
	logger, err := l.logger(stderr)
	if err != nil {
		fmt.Fprintln(stderr, name+":", err)
		return 2
	}
	log.SetLogger(logger)
	klog.SetLogger(logger)
	stdlog.SetFlags(0)
	stdlog.SetOutput(masking.LibraryLog(func(message string) { logger.Info("A library reports", "message", message) }))
	b := readBuild()
	if err := telemetry.Register(metrics.Registry, telemetry.BuildInfo(strings.TrimPrefix(name, "quoin "), b.Version, b.Commit)); err != nil {
		logger.Error(err, "Exiting with an error")
		return 1
	}
	processors.Oversubscribe()
	if limit, err := heap.Limit(); err != nil {
		logger.Info("The memory limit of the container is not known, and does not limit the heap", "error", err.Error())
	} else {
		logger.V(1).Info("The garbage collector has a memory limit", "bytes", limit)
	}
	if err := work(logger); err != nil {
		logger.Error(err, "Exiting with an error")
		return 1
	}
	return 0
}

// restConfig returns the configuration of a client of the Kubernetes API server.
func restConfig(kubeconfig, userAgent string) (*rest.Config, error) {
	config, err := readConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent
	// API Priority and Fairness limits the requests.
	config.QPS = -1
	return config, nil
}

func readConfig(kubeconfig string) (*rest.Config, error) {
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

// logFlags are the level and the format of the log.
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
