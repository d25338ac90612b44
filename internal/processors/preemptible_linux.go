package processors

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// longSlice is the time slice of threads with long work, in nanoseconds: longer than the default of Linux, which is at
// most 3 ms, and short enough that such a thread is soon run again while others are ready.
const longSlice uint64 = 8_000_000

// Preemptible lets the threads of other work, also of other processes, preempt that of the calling goroutine as soon as they
// are ready, until the same goroutine calls end.
//
// Since version 6.12, Linux lets a thread that wakes up preempt one with a longer time slice. One with an equal slice
// continues until the next timer interrupt, every four milliseconds on many machines. The slice does not change the share of
// the processor that a thread gets.
func Preemptible() (end func()) {
	runtime.LockOSThread()
	setSlice(longSlice)
	return endPreemptible
}

func endPreemptible() {
	setSlice(0)
	runtime.UnlockOSThread()
}

// setSlice sets the time slice of the calling thread in nanoseconds; 0 for the default. It does nothing if the kernel does
// not allow it, or if the thread has another scheduling policy than the default.
func setSlice(slice uint64) {
	attributes, err := unix.SchedGetAttr(0, 0)
	if err != nil || attributes.Policy != unix.SCHED_NORMAL {
		return
	}
	attributes.Runtime = slice
	_ = unix.SchedSetAttr(0, attributes, 0)
}
