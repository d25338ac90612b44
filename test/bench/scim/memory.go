package main

import (
	"context"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// memory is the memory of quoin apiserver in MiB: resident, and live on Go's heap.
type memory struct{ resident, live float64 }

// memoryOf reads /proc and the metrics. It returns zeroes for what is not available.
func memoryOf(quoin *controlplane.Quoin) memory {
	used, _ := process.MemoryOf(quoin.ID())
	next := quoin.Metric("go_memstats_next_gc_bytes") // twice the live heap
	return memory{used.Resident, next / 2 / (1 << 20)}
}

// measureMemory measures the memory of users and groups.
func (b *bench) measureMemory(context.Context) error {
	now := memoryOf(b.world.quoin)
	each := func(before, after float64) float64 { return (after - before) * 1024 / float64(b.users) }
	b.report.Fact("memory of quoin apiserver", "%.0f MiB resident, %.0f live; without users %.0f and %.0f; live %.1f KiB a user",
		now.resident, now.live, b.initialMemory.resident, b.initialMemory.live, each(b.initialMemory.live, now.live))
	b.report.AtMost("memory of quoin apiserver a user, groups included", each(b.initialMemory.resident, now.resident), 3, " KiB")
	return nil
}
