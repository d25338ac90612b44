// Command localcluster runs a real Kubernetes control plane on this machine
// without a container engine: it builds the pinned binaries, starts them as
// daemons on loopback, and adds simulated nodes (KWOK) or one real node
// (containerd and kubelet, Linux as root). README.md documents the commands,
// the ports and known problems.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// command is one subcommand of localcluster.
type command struct {
	name    string
	usage   string
	summary string
	run     func(ctx context.Context, args []string) error
}

var commands = []command{
	{"binaries", "[--nodes none|simulated|real]", "build the pinned binaries into the cache and print their folder", runBinaries},
	{"up", "[--nodes simulated|real] [--dir .local] [--auto-ports] [--bare [--warehouse]] [--install-packages]", "start a cluster, a registry and (unless --bare) Quoin with its samples", runUp},
	{"status", "[--dir .local]", "show the state of the cluster's processes", runStatus},
	{"push", "<repository> <version>... [--dir .local] [--server] [--broken]", "push sample images, or with --server the real data plane, to the cluster's registry", runPush},
	{"dbt-image", "--push <reference>|--tarball <file> [--install-packages]", "build the image with dbt of hack/dbt", runDbtImage},
	{"down", "[--dir .local] [--purge]", "stop all processes of the cluster", runDown},
	{"serve-git", "--root <folder> --address <host:port>", "", runServeGit}, // run by up as a daemon
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := dispatch(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		stop()
		os.Exit(1)
	}
}

// dispatch runs the subcommand that is named in args.
func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		printUsage()
		return flag.ErrHelp
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, args[1:])
		}
	}
	printUsage()
	return fmt.Errorf("unknown command %q", args[0])
}

func printUsage() {
	fmt.Fprintln(os.Stderr, "Usage: localcluster <command> [flags]")
	for _, c := range commands {
		if c.summary == "" {
			continue
		}
		fmt.Fprintf(os.Stderr, "\n  localcluster %s %s\n        %s\n", c.name, c.usage, c.summary)
	}
}

// newFlagSet returns the flag set of a subcommand. Errors are returned to the
// caller, so that only main prints and exits.
func newFlagSet(name string) *flag.FlagSet {
	flags := flag.NewFlagSet("localcluster "+name, flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	return flags
}

// parseMixed parses flags before, between and after positional arguments, and
// returns the positional arguments.
func parseMixed(flags *flag.FlagSet, args []string) ([]string, error) {
	var positional []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return positional, nil
		}
		positional = append(positional, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// parseFlags parses the args of a subcommand without positional arguments.
func parseFlags(flags *flag.FlagSet, args []string) error {
	positional, err := parseMixed(flags, args)
	if err != nil {
		return err
	}
	if len(positional) > 0 {
		return fmt.Errorf("%s: unexpected argument %q", flags.Name(), positional[0])
	}
	return nil
}
