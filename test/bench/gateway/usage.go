package main

import "github.com/quoin-dev/quoin/test/bench/internal/process"

// processorSeconds is how long a process and its children have had a processor.
func processorSeconds(p *process.Process) (used float64) {
	for _, u := range process.Family(p.ID()) {
		used += u.Processor
	}
	return used
}

// residentMiB is the memory of a process and its children; pages that they share count for each.
func residentMiB(p *process.Process) (sum float64) {
	for _, u := range process.Family(p.ID()) {
		m, _ := process.MemoryOf(u.ID) // one that has just ended has none
		sum += m.Resident
	}
	return sum
}
