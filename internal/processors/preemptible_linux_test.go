package processors

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// slice returns the time slice of the calling thread in nanoseconds; 0 if the kernel does not tell.
func slice(t *testing.T) uint64 {
	t.Helper()
	attributes, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return attributes.Runtime
}

func TestPreemptible(t *testing.T) {
	runtime.LockOSThread() // the slices are those of one thread
	defer runtime.UnlockOSThread()
	usual := slice(t)
	if usual == 0 {
		t.Skip("SKIPPED: this kernel has no time slices of threads, which Linux has since 6.12")
	}
	end := Preemptible()
	during := slice(t)
	end()
	if during != longSlice {
		t.Errorf("the time slice is %d ns, want %d", during, longSlice)
	}
	if usual >= longSlice {
		t.Errorf("the default time slice is %d ns, want less than %d", usual, longSlice)
	}
	if after := slice(t); after != usual {
		t.Errorf("afterwards the time slice is %d ns, want %d as before", after, usual)
	}
}
