package processorstest

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// LockThread keeps the goroutine of a test on one thread, and returns the time slice of that. It skips the test if the kernel has none.
func LockThread(t *testing.T) (usual uint64) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if usual = Slice(t); usual == 0 {
		t.Skip("SKIPPED: this kernel has no time slices of threads, which Linux has since 6.12")
	}
	return usual
}

// Slice returns the time slice of the calling thread in nanoseconds; 0 if the kernel does not tell.
func Slice(t *testing.T) uint64 {
	t.Helper()
	attributes, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return attributes.Runtime
}
