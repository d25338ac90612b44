// Command quoin is the control plane for analytics deployments on Kubernetes.
//
// Each component is a subcommand and scales independently.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/quoin-dev/quoin/cmd/quoin/dbtsandbox"
	"github.com/quoin-dev/quoin/cmd/quoin/modelfetch"
	"github.com/quoin-dev/quoin/plugin"
)

// subcommands are the subcommands by name. Each returns the exit code: 0 success, 1 failure, 2
// invalid usage.
var subcommands = map[string]struct {
	run     func(ctx context.Context, args []string, stdout, stderr io.Writer) int
	summary string
}{
	"apiserver":   {serveAPI, "serve the REST API over HTTPS and behind the Kubernetes API"},
	"backup":      {runBackup, "copy the objects of Quoin and the content store to an archive"},
	"controller":  {runControllers, "run the controllers of all kinds"},
	"ctl":         {runPlugin, "show, explain and change deployments: kubectl quoin under another name"},
	"dbt-clone":   {dbtsandbox.Clone, "fetch a dbt project from Git into a folder, then exit"},
	"dbt-deliver": {dbtsandbox.Deliver, "send the manifest of a dbt project to quoin apiserver, then exit"},
	"gateway":     {serveGateway, "serve the data APIs and SQL interfaces of all deployments"},
	"model-fetch": {modelfetch.Run, "fetch a data model from Git into a folder, then exit"},
	"restore":     {runRestore, "restore an archive of quoin backup in an empty cluster"},
	"version":     {printVersion, "print the version, the commit and the platform (-o json)"},
	"wait-ready":  {waitReady, "wait until servers respond, then exit: the start-up check of the Helm chart"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if args, ok := plugin.Invoked(os.Args); ok {
		os.Exit(runPlugin(ctx, args, os.Stdout, os.Stderr))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		printUsage(stderr)
		return 2
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) == 1 {
			printUsage(stdout)
			return 0
		}
		args = []string{args[1], "-h"} // quoin help <subcommand>
	}
	if sub, ok := subcommands[args[0]]; ok {
		return sub.run(ctx, args[1:], stdout, stderr)
	}
	fmt.Fprintf(stderr, "quoin: unknown subcommand %q\n\n", args[0])
	printUsage(stderr)
	return 2
}

func printUsage(w io.Writer) {
	fmt.Fprintln(w, "Quoin is the control plane for analytics deployments on Kubernetes.")
	fmt.Fprintln(w, "\nUsage: quoin <subcommand> [flags]\n\nSubcommands; -h after one lists its flags:")
	for _, name := range slices.Sorted(maps.Keys(subcommands)) {
		fmt.Fprintf(w, "  %-12s %s\n", name, subcommands[name].summary)
	}
	fmt.Fprintf(w, "  %-12s %s\n", "help", "print this text")
}
