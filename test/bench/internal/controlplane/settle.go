package controlplane

import (
	"context"
	"os"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// ProcessorTime returns the processor time of this program and its children in seconds, by name. It is empty if there is
// no /proc.
func (s *APIServer) ProcessorTime() map[string]float64 {
	names := map[int]string{os.Getpid(): "bench"}
	for _, p := range s.Programs {
		names[p.ID()] = p.Name
	}
	used := map[string]float64{}
	for _, u := range process.Family(os.Getpid()) {
		if name := names[u.ID]; name != "" {
			u.Program = name
		}
		used[u.Program] += u.Processor
	}
	return used
}

// Memory returns the resident memory of a program and its highest, in MiB: etcd, kube-apiserver, or one that was started with
// a name.
func (s *APIServer) Memory(name string) process.Memory {
	id := 0
	for _, u := range process.Family(os.Getpid()) {
		if u.Program == name {
			id = u.ID
		}
	}
	for _, p := range s.Programs {
		if p.Name == name {
			id = p.ID()
		}
	}
	used, _ := process.MemoryOf(id) // zero without /proc
	return used
}

// Settle waits until background work, such as the controller's writes, is done, so that it does not count in the next
// measurement.
func (s *APIServer) Settle(ctx context.Context) {
	const (
		window = 400 * time.Millisecond
		quiet  = 0.2 // of one processor, all programs together
		atMost = 2 * time.Minute
	)
	for start := time.Now(); time.Since(start) < atMost && ctx.Err() == nil; {
		before := measure.Total(s.ProcessorTime())
		time.Sleep(window)
		if measure.Total(s.ProcessorTime())-before < quiet*window.Seconds() {
			return
		}
	}
}
