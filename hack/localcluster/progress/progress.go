// Package progress prints the progress of a command.
package progress

import (
	"fmt"
	"os"
	"time"
)

// Infof prints a line of progress to stderr; stdout is for output that scripts
// read.
func Infof(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// Step runs work and prints its name and duration. It prints the name before it
// runs work, so that a slow step is visible.
func Step(name string, work func() error) error {
	fmt.Fprintf(os.Stderr, "%s … ", name)
	start := time.Now()
	if err := work(); err != nil {
		fmt.Fprintf(os.Stderr, "failed after %s\n", Seconds(time.Since(start)))
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(os.Stderr, "done in %s\n", Seconds(time.Since(start)))
	return nil
}

// Seconds formats a duration, with tenths below ten seconds.
func Seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
