package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// The bars of the project; see the budgets in the design.
const (
	barRatio  = 1.3
	barMemory = 256
)

// pair is one rollout by Quoin and one without.
type pair struct {
	// Quoin is the time from the channel's showing the version, FromPush from the end of
	// the push, Direct from the first patch, in seconds.
	Quoin    float64 `json:"quoinSeconds"`
	FromPush float64 `json:"quoinSecondsFromPush"`
	Direct   float64 `json:"directSeconds"`
	// Writes and Reads of the controller, for each deployment.
	Writes map[string]float64 `json:"writesPerDeployment"`
	Reads  float64            `json:"readsPerDeployment"`
	// Reconciles for each deployment, by controller.
	Reconciles map[string]float64 `json:"reconcilesPerDeployment"`
	Memory     memory             `json:"memory"`
	// QuoinCPU and DirectCPU are the time of the processors by process, in seconds.
	QuoinCPU  map[string]float64 `json:"quoinCPUSeconds"`
	DirectCPU map[string]float64 `json:"directCPUSeconds"`
}

func (p pair) ratio() float64 { return p.Quoin / p.Direct }

func (p pair) cpuRatio() float64 { return measure.Total(p.QuoinCPU) / measure.Total(p.DirectCPU) }

// result is all that was measured.
type result struct {
	Deployments   int                `json:"deployments"`
	Workers       int                `json:"workers"`
	Install       float64            `json:"installSeconds"`
	InstallWrites map[string]float64 `json:"installWritesPerDeployment"`
	InstallMemory memory             `json:"installMemory"`
	Pairs         []pair             `json:"pairs"`
	RestWrites    float64            `json:"restWritesPerMinute"`
	RestCPU       float64            `json:"restCPUSecondsPerMinute"`
	RestMemory    memory             `json:"restMemory"`
}

func perDeployment(counts map[string]int, deployments int) map[string]float64 {
	per := map[string]float64{}
	for name, count := range counts {
		per[name] = perUnit(count, deployments)
	}
	return per
}

func perUnit(count, deployments int) float64 { return float64(count) / float64(deployments) }

// median of one figure of the pairs.
func (r result) median(of func(pair) float64) float64 {
	values := make([]float64, 0, len(r.Pairs))
	for _, p := range r.Pairs {
		values = append(values, of(p))
	}
	return measure.Median(values)
}

// peak is the most memory that the controller had.
func (r result) peak() float64 {
	most := max(r.InstallMemory.Peak, r.RestMemory.Peak)
	for _, p := range r.Pairs {
		most = max(most, p.Memory.Peak)
	}
	return most
}

// print writes a table for people and one line of JSON.
func (r result) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d deployments, %d workers, %d processors, load %s\n\n", r.Deployments, r.Workers, runtime.NumCPU(), measure.Load())
	r.printPairs(w)
	r.printWrites(w)
	r.printMemory(w)
	fmt.Fprintf(w, "\nratio %.2f (bar %.1f), memory %.0f MiB (bar %d), writes at rest %.1f a minute (bar 0), installed in %.1f s\n",
		r.median(pair.ratio), barRatio, r.peak(), barMemory, r.RestWrites, r.Install)
	line, err := json.Marshal(struct {
		Ratio   float64 `json:"ratio"`
		PeakMiB float64 `json:"peakMiB"`
		result
	}{r.median(pair.ratio), r.peak(), r})
	if err == nil {
		fmt.Fprintf(w, "%s\n", line)
	}
}

func (r result) printPairs(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(title, format string, of func(pair) float64) {
		fmt.Fprintf(t, "%s\t", title)
		for _, p := range r.Pairs {
			fmt.Fprintf(t, format+"\t", of(p))
		}
		fmt.Fprintf(t, format+"\t\n", r.median(of))
	}
	fmt.Fprint(t, "rollout\t")
	for i := range r.Pairs {
		fmt.Fprintf(t, "pair %d\t", i+1)
	}
	fmt.Fprint(t, "median\t\n")
	row("Quoin, s", "%.1f", func(p pair) float64 { return p.Quoin })
	row("Quoin from the push, s", "%.1f", func(p pair) float64 { return p.FromPush })
	row("patched directly, s", "%.1f", func(p pair) float64 { return p.Direct })
	row("ratio", "%.2f", pair.ratio)
	row("CPU, Quoin, s", "%.1f", func(p pair) float64 { return measure.Total(p.QuoinCPU) })
	row("of it the controller, s", "%.1f", func(p pair) float64 { return p.QuoinCPU[controllerName] })
	row("of it the API server, s", "%.1f", func(p pair) float64 { return p.QuoinCPU["kube-apiserver"] })
	row("CPU, directly, s", "%.1f", func(p pair) float64 { return measure.Total(p.DirectCPU) })
	row("of it the API server, s", "%.1f", func(p pair) float64 { return p.DirectCPU["kube-apiserver"] })
	row("ratio of CPU", "%.2f", pair.cpuRatio)
	row("writes a deployment", "%.2f", func(p pair) float64 { return measure.Total(p.Writes) })
	row("reads a deployment", "%.2f", func(p pair) float64 { return p.Reads })
	for _, name := range []string{"deployment", "environment"} {
		row("reconciles of "+name+"s", "%.2f", func(p pair) float64 { return p.Reconciles[name] })
	}
	t.Flush()
}

// printWrites shows what is written for a deployment when it is made, and in a rollout.
func (r result) printWrites(w io.Writer) {
	last := r.Pairs[len(r.Pairs)-1].Writes
	names := maps.Clone(r.InstallWrites)
	maps.Copy(names, last)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nwrites a deployment\tinstall\trollout\t\n")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t\n", name, r.InstallWrites[name], last[name])
	}
	fmt.Fprintf(t, "all\t%.2f\t%.2f\t\n", measure.Total(r.InstallWrites), measure.Total(last))
	t.Flush()
}

func (r result) printMemory(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nmemory of the controller, MiB\tresident\tpeak\tGo heap\t\n")
	row := func(title string, m memory) {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t\n", title, m.Resident, m.Peak, m.Heap)
	}
	row("installed", r.InstallMemory)
	row("rolled out", r.Pairs[0].Memory)
	row("at rest", r.RestMemory)
	t.Flush()
}
