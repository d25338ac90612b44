package process

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
)

// Main runs a program. SIGINT and SIGTERM cancel the context; an error is printed, and the exit code is 1.
func Main(name string, work func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := work(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// CheckFlags checks numeric flags against their minimum, and that there are no arguments after the flags.
func CheckFlags(minimum map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(minimum)) {
		value, err := strconv.Atoi(flag.Lookup(name).Value.String())
		if err != nil {
			return fmt.Errorf("-%s: %w", name, err)
		}
		if value < minimum[name] {
			return fmt.Errorf("-%s is %d, must be %d or more", name, value, minimum[name])
		}
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	return nil
}
