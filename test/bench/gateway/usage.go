package main

import "github.com/quoin-dev/quoin/test/bench/internal/process"

// processorSeconds returns the processor time of a process and its children.
func processorSeconds(p *process.Process) (used float64) {
	for _, u := range process.Family(p.ID()) {
		used += u.Processor
	}
	return used
}

// residentMiB returns the memory of a process and its children. Shared pages count for each of them.
func residentMiB(p *process.Process) (sum float64) {
	for _, u := range process.Family(p.ID()) {
		m, _ := process.MemoryOf(u.ID) // zero if it has just exited
		sum += m.Resident
	}
	return sum
}
