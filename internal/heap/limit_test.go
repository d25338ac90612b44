package heap

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestLimit: the limit is that of the container, or of the environment.
func TestLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	t.Setenv("GOMEMLIMIT", "")
	_ = os.Unsetenv("GOMEMLIMIT") // t.Setenv restores it
	const mine = 1<<40 + 1
	debug.SetMemoryLimit(mine)
	got, err := Limit()
	if err != nil {
		t.Skip("SKIPPED LOUDLY: the control group of this process is not readable: ", err)
	}
	if set := debug.SetMemoryLimit(-1); got != set || set == mine {
		t.Errorf("the limit is %d, and %d was returned; want the limit of the container, not the one of before", set, got)
	}
	debug.SetMemoryLimit(mine)
	t.Setenv("GOMEMLIMIT", "1TiB")
	if got, err := Limit(); err != nil || got != mine || debug.SetMemoryLimit(-1) != mine {
		t.Errorf("GOMEMLIMIT is set, but the limit is %d, %v", got, err)
	}
}
