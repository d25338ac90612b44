package main

import (
	"context"
	"fmt"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

// runBinaries is the command "binaries". Only the folder goes to stdout, so
// that KUBEBUILDER_ASSETS="$(localcluster binaries --nodes none)" works.
func runBinaries(ctx context.Context, args []string) error {
	flags := newFlagSet("binaries")
	nodes := flags.String("nodes", cluster.NodesSimulated, "which set to build: none (enough for envtest), simulated or real")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	bin, err := binaries.Build(ctx, *nodes)
	if err != nil {
		return err
	}
	fmt.Println(bin)
	return nil
}
