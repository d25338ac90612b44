package main

import (
	"context"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// memory of the front end, in MiB.
type memory struct{ resident, live float64 }

// memoryOf reads /proc, and what Go found live when it last collected from the metrics; zeroes where
// these are not.
func memoryOf(front *controlplane.Front) memory {
	used, _ := process.MemoryOf(front.ID())
	next := front.Metric("go_memstats_next_gc_bytes") // due when what is live has doubled
	return memory{used.Resident, next / 2 / (1 << 20)}
}

// weigh tells what users and groups cost.
func (b *bench) weigh(context.Context) error {
	now := memoryOf(b.world.front)
	each := func(before, after float64) float64 { return (after - before) * 1024 / float64(b.users) }
	b.report.Fact("memory of quoin apiserver", "%.0f MiB resident, %.0f live; before there were users %.0f, %.0f: **%.1f KiB a user** (%.1f live), groups included",
		now.resident, now.live, b.unfilled.resident, b.unfilled.live, each(b.unfilled.resident, now.resident), each(b.unfilled.live, now.live))
	return nil
}
