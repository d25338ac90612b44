package main

import (
	"context"
	"fmt"
)

// runBinaries is the command "binaries". Only the folder goes to stdout, so
// that KUBEBUILDER_ASSETS="$(localcluster binaries --nodes none)" works.
func runBinaries(ctx context.Context, args []string) error {
	flags := newFlagSet("binaries")
	nodes := flags.String("nodes", nodesSimulated, "which set to build: none (enough for envtest), simulated or real")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	bin, err := buildBinaries(ctx, *nodes)
	if err != nil {
		return err
	}
	fmt.Println(bin)
	return nil
}
