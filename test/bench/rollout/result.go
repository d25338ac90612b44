package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// The project's bars.
const (
	barRatio      = 1.15
	barRestWrites = 0
	// Memory of the controller in MiB, with up to 1,000 deployments and with more (10,000).
	barMemory      = 192
	barMemoryLarge = 1536
)

// pair is a rollout by Quoin and one by direct patches.
type pair struct {
	// Quoin is the time since the channel showed the version, FromPush since the end of the push, Direct since the
	// first patch, in seconds.
	Quoin    float64 `json:"quoinSeconds"`
	FromPush float64 `json:"quoinSecondsFromPush"`
	Direct   float64 `json:"directSeconds"`
	// Writes and Reads of the controller, per deployment.
	Writes map[string]float64 `json:"writesPerDeployment"`
	Reads  float64            `json:"readsPerDeployment"`
	// Reconciles per deployment, by controller.
	Reconciles map[string]float64 `json:"reconcilesPerDeployment"`
	Memory     memory             `json:"memory"`
	// QuoinCPU and DirectCPU are processor time by process, in seconds.
	QuoinCPU  map[string]float64 `json:"quoinCPUSeconds"`
	DirectCPU map[string]float64 `json:"directCPUSeconds"`
}

func (p pair) ratio() float64 { return p.Quoin / p.Direct }

func (p pair) cpuRatio() float64 { return measure.Total(p.QuoinCPU) / measure.Total(p.DirectCPU) }

// result is everything that was measured.
type result struct {
	Deployments   int                `json:"deployments"`
	Workers       int                `json:"workers"`
	Limit         int                `json:"limit"`
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

// values returns one figure of every pair.
func (r result) values(of func(pair) float64) []float64 {
	values := make([]float64, 0, len(r.Pairs))
	for _, p := range r.Pairs {
		values = append(values, of(p))
	}
	return values
}

// median returns the median of one figure of the pairs.
func (r result) median(of func(pair) float64) float64 { return measure.Median(r.values(of)) }

// peak returns the highest memory of the controller without its program.
func (r result) peak() float64 {
	all := []memory{r.InstallMemory, r.RestMemory}
	for _, p := range r.Pairs {
		all = append(all, p.Memory)
	}
	highest := 0.0
	for _, m := range all {
		highest = max(highest, m.Peak-m.Program)
	}
	return highest
}

// setup describes the run.
func (r result) setup() string {
	limit := "no limit of concurrent rollouts"
	if r.Limit > 0 {
		limit = fmt.Sprintf("at most %d concurrent rollouts", r.Limit)
	}
	return fmt.Sprintf("%d deployments on simulated nodes, %d workers, %s; etcd, kube-apiserver, controllers and bench share the machine", r.Deployments, r.Workers, limit)
}

// print writes Markdown tables: the figures with bars, the pairs, writes and memory.
func (r result) print(w io.Writer) {
	ratios := r.values(pair.ratio)
	memoryBar := float64(barMemory)
	if r.Deployments > 1000 {
		memoryBar = barMemoryLarge
	}
	bars := measure.Bars{}
	bars.AtMost(fmt.Sprintf("time of a rollout ÷ time of patching the workloads directly, median of %d pairs (%.2f to %.2f)", len(ratios), slices.Min(ratios), slices.Max(ratios)),
		measure.Median(ratios), barRatio, "")
	bars.AtMost("writes a minute in steady state", r.RestWrites, barRestWrites, "")
	bars.AtMost("peak memory of the controller without its program", r.peak(), memoryBar, " MiB")
	bars.PrintBars(w)
	r.printPairs(w)
	r.printWrites(w)
	r.printMemory(w)
}

// printJSON writes the result as one line.
func (r result) printJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(struct {
		Ratio   float64 `json:"ratio"`
		PeakMiB float64 `json:"peakMiB"`
		result
	}{r.median(pair.ratio), r.peak(), r})
}

func (r result) printPairs(w io.Writer) {
	row := func(title, format string, of func(pair) float64) {
		fmt.Fprintf(w, "| %s |", title)
		for _, value := range append(r.values(of), r.median(of)) {
			fmt.Fprintf(w, " "+format+" |", value)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "| Rollout |")
	for i := range r.Pairs {
		fmt.Fprintf(w, " Pair %d |", i+1)
	}
	fmt.Fprintf(w, " Median |\n|---|%s\n", strings.Repeat("---:|", len(r.Pairs)+1))
	row("Quoin, s", "%.1f", func(p pair) float64 { return p.Quoin })
	row("Quoin, since the push, s", "%.1f", func(p pair) float64 { return p.FromPush })
	row("direct patches, s", "%.1f", func(p pair) float64 { return p.Direct })
	row("ratio", "%.2f", pair.ratio)
	row("processor time, Quoin, s", "%.1f", func(p pair) float64 { return measure.Total(p.QuoinCPU) })
	row("of which the controller, s", "%.1f", func(p pair) float64 { return p.QuoinCPU[controllerName] })
	row("of which kube-apiserver, s", "%.1f", func(p pair) float64 { return p.QuoinCPU["kube-apiserver"] })
	row("processor time, direct patches, s", "%.1f", func(p pair) float64 { return measure.Total(p.DirectCPU) })
	row("of which kube-apiserver, s", "%.1f", func(p pair) float64 { return p.DirectCPU["kube-apiserver"] })
	row("ratio of processor time", "%.2f", pair.cpuRatio)
	row("writes per deployment", "%.2f", func(p pair) float64 { return measure.Total(p.Writes) })
	row("reads per deployment", "%.2f", func(p pair) float64 { return p.Reads })
	for _, name := range []string{"deployment", "environment"} {
		row("reconciliations of "+name+"s, per deployment", "%.2f", func(p pair) float64 { return p.Reconciles[name] })
	}
}

// printWrites prints the writes per deployment of the installation and of the last rollout.
func (r result) printWrites(w io.Writer) {
	last := r.Pairs[len(r.Pairs)-1].Writes
	names := maps.Clone(r.InstallWrites)
	maps.Copy(names, last)
	fmt.Fprint(w, "\n| Writes per deployment | Installation | Rollout |\n|---|---:|---:|\n")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(w, "| %s | %.2f | %.2f |\n", name, r.InstallWrites[name], last[name])
	}
	fmt.Fprintf(w, "| all | %.2f | %.2f |\n", measure.Total(r.InstallWrites), measure.Total(last))
}

func (r result) printMemory(w io.Writer) {
	fmt.Fprint(w, "\n| Memory of the controller, MiB | Resident | Peak | Program | Go heap |\n|---|---:|---:|---:|---:|\n")
	row := func(title string, m memory) {
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.0f |\n", title, m.Resident, m.Peak, m.Program, m.Heap)
	}
	row(fmt.Sprintf("installed in %.1f s", r.Install), r.InstallMemory)
	row("rolled out", r.Pairs[0].Memory)
	row("steady state", r.RestMemory)
}
