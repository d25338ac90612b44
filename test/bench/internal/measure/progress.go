package measure

import (
	"fmt"
	"os"
	"strings"
	"time"
)

var began = time.Now()

// Progress tells on stderr what happens now.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7s  %s\n", time.Since(began).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// Load says how busy the machine is, in the last minute, five and fifteen, where that can be known.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
