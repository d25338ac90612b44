// Command quoin is the control plane for analytics deployments on Kubernetes.
//
// Each component is a subcommand and scales independently.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quoin-dev/quoin/cmd/quoin/modelfetch"
)

// subcommands are the subcommands by name. Each returns the exit code: 0 success, 1 failure, 2
// invalid usage.
var subcommands = map[string]struct {
	run     func(ctx context.Context, args []string, stdout, stderr io.Writer) int
	summary string
}{
	"apiserver":   {serveAPI, "serve the REST API over HTTPS and behind the Kubernetes API"},
	"controller":  {runControllers, "run the controllers of all kinds"},
	"gateway":     {serveGateway, "serve the data APIs and SQL interfaces of all deployments"},
	"model-fetch": {modelfetch.Run, "fetch a data model from Git into a folder, then exit"},
	"version":     {printVersion, "print the version"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if sub, ok := subcommands[args[0]]; ok {
			return sub.run(ctx, args[1:], stdout, stderr)
		}
		fmt.Fprintf(stderr, "quoin: unknown subcommand %q\n\n", args[0])
	}
	fmt.Fprintln(stderr, "Usage: quoin <subcommand> [flags]; -h after a subcommand lists its flags")
	for _, name := range []string{"apiserver", "controller", "gateway", "model-fetch", "version"} {
		fmt.Fprintf(stderr, "  %-12s %s\n", name, subcommands[name].summary)
	}
	return 2
}
