package main

import (
	"context"
	"io"
	"os"

	"github.com/quoin-dev/quoin/plugin"
)

// runPlugin runs `quoin ctl`, which is `kubectl quoin` under another name.
func runPlugin(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return plugin.Run(ctx, args, plugin.Options{Version: readBuild().Version, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr})
}
