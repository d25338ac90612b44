// Package processors sets how many goroutines of a server run at a time, and which threads others preempt.
package processors

import (
	"os"
	"runtime"
)

// Count is the number of processors that this process may use, at least one.
var Count = runtime.GOMAXPROCS(0)

// Oversubscribe lets twice as many goroutines run at a time as there are processors. It does nothing if the environment
// variable GOMAXPROCS is set.
//
// The Go scheduler polls the network only every ten milliseconds while as many goroutines run as it allows. With fewer,
// one of its threads waits for the network in the kernel, which gives it a processor as soon as a request arrives, and
// divides the processors between the threads.
func Oversubscribe() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * Count)
	}
}
