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

// Main does the work of this program, which ends early when it is told to. A failure goes to stderr.
func Main(name string, work func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := work(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// CheckFlags looks at flags that are numbers, by the least that each may be, and that nothing stands
// behind the flags.
func CheckFlags(least map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(least)) {
		value, err := strconv.Atoi(flag.Lookup(name).Value.String())
		if err != nil {
			return fmt.Errorf("-%s: %w", name, err)
		}
		if value < least[name] {
			return fmt.Errorf("-%s is %d, must be %d or more", name, value, least[name])
		}
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	return nil
}
