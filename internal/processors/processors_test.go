package processors

import (
	"os"
	"runtime"
	"testing"
)

// An administrator who sets GOMAXPROCS decides.
func TestOversubscribe(t *testing.T) {
	t.Cleanup(func() { runtime.GOMAXPROCS(Count) })
	t.Setenv("GOMAXPROCS", "1")
	Oversubscribe()
	if n := runtime.GOMAXPROCS(0); n != Count {
		t.Errorf("GOMAXPROCS is set: %d goroutines run at a time, want %d", n, Count)
	}
	_ = os.Unsetenv("GOMAXPROCS") // t.Setenv restores it
	Oversubscribe()
	if n := runtime.GOMAXPROCS(0); n != 2*Count {
		t.Errorf("GOMAXPROCS is not set: %d goroutines run at a time, want %d", n, 2*Count)
	}
}
