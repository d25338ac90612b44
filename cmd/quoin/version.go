package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
)

// version is the release, set by the linker.
var version = "dev"

// printVersion runs `quoin version`.
func printVersion(_ context.Context, _ []string, stdout, _ io.Writer) int {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	fmt.Fprintf(stdout, "quoin %s%s\n", version, revision)
	return 0
}
