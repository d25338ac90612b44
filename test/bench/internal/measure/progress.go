package measure

import (
	"fmt"
	"os"
	"strings"
	"time"
)

var started = time.Now()

// Progress writes a line of progress to stderr.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7s  %s\n", time.Since(started).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// Load returns the load averages of the last 1, 5 and 15 minutes, or "unknown".
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
