package main

import (
	"context"
	"fmt"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
)

// runBinaries is the command "binaries". It prints only the folder to stdout,
// for KUBEBUILDER_ASSETS="$(localcluster binaries --nodes none)".
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
