package main

import (
	"context"

	"github.com/quoin-dev/quoin/hack/localcluster/gitserver"
)

// runServeGit is the command "serve-git", the daemon of package gitserver.
func runServeGit(ctx context.Context, args []string) error {
	flags := newFlagSet("serve-git")
	root := flags.String("root", "", "folder of the repositories")
	address := flags.String("address", "", "address to listen on")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	return gitserver.Serve(ctx, *root, *address)
}
