package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// The release, its commit and the time of the commit, set by the linker. When empty, they are those
// that Go has recorded in the binary.
var version, commit, date string

// build describes the binary.
type build struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	Date      string `json:"date"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// readBuild returns the description of the running binary.
func readBuild() build {
	b := build{version, commit, date, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	recorded, settings := "", map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "(devel)" {
			recorded = info.Main.Version
		}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	revision := settings["vcs.revision"]
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	b.Version = cmp.Or(b.Version, recorded, "dev")
	b.Commit = cmp.Or(b.Commit, revision, "unknown")
	b.Date = cmp.Or(b.Date, settings["vcs.time"], "unknown")
	return b
}

// printVersion runs `quoin version`.
func printVersion(_ context.Context, args []string, stdout, stderr io.Writer) int {
	fs, format := newFlagSet("quoin version", stderr), ""
	fs.StringVar(&format, "o", "text", "output `format`: text or json")
	err := parse(fs, args, func() string {
		if format != "text" && format != "json" {
			return fmt.Sprintf("-o is %q, must be text or json", format)
		}
		return ""
	})
	if err != nil {
		return exitCode(err)
	}
	b := readBuild()
	if format == "json" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(b); err != nil {
			fmt.Fprintln(stderr, "quoin version:", err)
			return 1
		}
		return 0
	}
	fmt.Fprintf(stdout, "quoin %s\n  commit    %s\n  date      %s\n  go        %s\n  platform  %s\n", b.Version, b.Commit, b.Date, b.GoVersion, b.Platform)
	return 0
}
