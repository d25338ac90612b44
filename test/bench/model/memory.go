package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

const (
	// maxMemory is the bar for the resident memory of the server in MiB: half of the limit of the chart.
	maxMemory = 256
	// maxGrowth is the bar for the growth of the live heap, in MiB, while repositories come that the cache cannot hold.
	maxGrowth = 8
)

// measureMemory measures the memory of the server while repositories are pushed, cloned, read and uploaded to, one after
// the other. All together are larger than the cache of repositories.
func (b *bench) measureMemory(ctx context.Context) error {
	var live, resident []float64
	for round := range b.rounds {
		if err := b.useRepository(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		used, err := process.MemoryOf(b.quoin.ID())
		if err != nil {
			return err
		}
		live = append(live, b.quoin.Metric("go_memstats_next_gc_bytes")/2/(1<<20)) // twice the live heap
		resident = append(resident, used.Resident)
		measure.Progress("  round %d: %.0f MiB resident, %.0f MiB live", round+1, used.Resident, live[round])
	}
	used, err := process.MemoryOf(b.quoin.ID())
	if err != nil {
		return err
	}
	// The first rounds fill the cache. Of several rounds, the one counts in which least was garbage.
	middle := b.rounds / 2
	growth := slices.Min(live[len(live)-middle/2:]) - slices.Min(live[middle-middle/2:middle])
	b.report.Fact(b.name+": memory of quoin apiserver after each round, MiB", "resident%s; live heap%s", numbers(resident), numbers(live))
	b.report.AtMost(fmt.Sprintf("%s: growth of the live heap between round %d and round %d", b.name, middle, b.rounds), max(growth, 0), maxGrowth, " MiB")
	b.report.AtMost(b.name+": peak memory of quoin apiserver", used.Peak, maxMemory, " MiB")
	return nil
}

func numbers(values []float64) string {
	text := ""
	for _, value := range values {
		text += fmt.Sprintf(" %.0f", value)
	}
	return text
}

// useRepository pushes the model to a new deployment, clones it, reads it over REST, and uploads changes.
func (b *bench) useRepository(ctx context.Context, round int) error {
	id, err := b.newDeployment(ctx)
	if err != nil {
		return err
	}
	if _, err := b.push(ctx, b.uploaded, id); err != nil {
		return err
	}
	from, options, err := b.repository(id)
	if err != nil {
		return err
	}
	clone := filepath.Join(b.server.Dir, "clone")
	if err := git(ctx, b.server.Dir, append(options, "clone", "--quiet", from, clone)...); err != nil {
		return err
	}
	if err := os.RemoveAll(clone); err != nil {
		return err
	}
	if _, _, err := b.client().get(ctx, "/build/api/v1/deployments/"+id+"/data-model/files?withContent=true"); err != nil {
		return err
	}
	changed := maps.Clone(b.uploaded.files)
	for _, path := range b.uploaded.paths[:min(b.changed, len(b.uploaded.paths))] {
		changed[path] = fmt.Appendf(nil, "# %s %d\n%s", id, round, changed[path])
	}
	_, _, err = b.client().upload(ctx, newer(id), changed, b.callers)
	return err
}
