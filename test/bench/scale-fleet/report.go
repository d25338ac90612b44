package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/etcd"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// The project's bars.
const (
	barWrites = 5
	// barMemory is that of the controller with 10,000 deployments, in MiB.
	barMemory = 1536
	// barGrowth is how many times as long a rollout of ten times as many deployments may take, per deployment.
	barGrowth = 1.2
)

// figures are those of one number of deployments.
type figures struct {
	n                            int
	installed, rolledOut, steady reading
	// restarted is the usage until the controller was steady again, synced the time until it was ready.
	restarted reading
	synced    time.Duration

	controllerMemory, restartMemory, apiserverMemory, gatewayMemory process.Memory
	kubeAPIServerMemory, etcdMemory                                 process.Memory

	apiserverStarted, gatewayStarted time.Duration
	pages                            measure.Times
	// kinds are the sizes of objects in etcd; database and databaseUsed that of its file, in bytes.
	kinds                  []etcd.Kind
	database, databaseUsed float64
}

// stored returns the bytes of all objects of a deployment in etcd.
func (f *figures) stored() float64 {
	sum := 0.0
	for _, k := range f.kinds {
		sum += float64(k.Count) * k.Bytes
	}
	return sum / float64(f.n)
}

// report has the figures of all numbers of deployments.
type report struct {
	workers int
	sizes   []*figures
}

func (r *report) setup() string {
	return fmt.Sprintf("No nodes, %d workers, no limit of concurrent rollouts; etcd, kube-apiserver, Quoin and bench share the machine; etcd does not wait for the disk", r.workers)
}

// print writes Markdown tables: the figures with bars, their growth, writes, and sizes in etcd.
func (r *report) print(w io.Writer) {
	if len(r.sizes) == 0 {
		return
	}
	first, last := r.sizes[0], r.sizes[len(r.sizes)-1]
	bars := measure.Bars{}
	of := fmt.Sprintf(" with %d deployments", last.n)
	bars.AtMost("writes of the controller per deployment, rollout, without those of the channel"+of, last.rolledOut.writesOfDeployments()/float64(last.n), barWrites, "")
	bars.AtMost("peak memory of the controller"+of, max(last.controllerMemory.Peak, last.restartMemory.Peak), barMemory, " MiB")
	if len(r.sizes) > 1 {
		each := func(f *figures) float64 { return f.rolledOut.took.Seconds() / float64(f.n) }
		bars.AtMost(fmt.Sprintf("time of a rollout per deployment%s ÷ with %d", of, first.n), each(last)/each(first), barGrowth, "")
	}
	bars.AtMost("writes in steady state"+of, measure.Total(last.steady.writes()), 0, "")
	bars.AtMost("writes after a restart"+of, measure.Total(last.restarted.writes()), 0, "")
	bars.PrintBars(w)
	r.growth().Print(w, "Deployments")
	r.printWrites(w, last)
	r.printKinds(w, last)
}

// values returns a figure of all numbers of deployments.
func (r *report) values(of func(f *figures) float64) []float64 {
	all := make([]float64, len(r.sizes))
	for i, f := range r.sizes {
		all[i] = of(f)
	}
	return all
}

func (r *report) growth() *measure.Growth {
	g := &measure.Growth{}
	for _, f := range r.sizes {
		g.Sizes = append(g.Sizes, f.n)
	}
	each := func(of func(f *figures) float64) []float64 {
		return r.values(func(f *figures) float64 { return of(f) / float64(f.n) })
	}
	g.Total("installation", " s", r.values(func(f *figures) float64 { return f.installed.took.Seconds() })...)
	g.Total("rollout", " s", r.values(func(f *figures) float64 { return f.rolledOut.took.Seconds() })...)
	g.Each("writes per deployment, installation", "", each(func(f *figures) float64 { return measure.Total(f.installed.writes()) })...)
	g.Each("writes per deployment, rollout", "", each(func(f *figures) float64 { return measure.Total(f.rolledOut.writes()) })...)
	for _, name := range controllers {
		g.Each("reconciliations of "+name+"s per deployment, rollout", "", each(func(f *figures) float64 { return f.rolledOut.reconciles[name] })...)
	}
	g.Each("processor time of the controller per deployment, rollout", " ms", each(func(f *figures) float64 { return 1000 * f.rolledOut.cpu["controller"] })...)
	g.Each("processor time of kube-apiserver per deployment, rollout", " ms", each(func(f *figures) float64 { return 1000 * f.rolledOut.cpu["kube-apiserver"] })...)
	for _, name := range controllers {
		for _, q := range []float64{0.5, 0.99} {
			g.Total(fmt.Sprintf("time in the queue of %ss, rollout, p%.0f", name, 100*q), " s", r.values(func(f *figures) float64 { return f.rolledOut.queues[name].Quantile(q) })...)
		}
	}
	g.Total("restart of the controller: ready", " s", r.values(func(f *figures) float64 { return f.synced.Seconds() })...)
	g.Total("restart of the controller: steady", " s", r.values(func(f *figures) float64 { return f.restarted.took.Seconds() })...)
	g.Each("requests of a restart", "", r.values(func(f *figures) float64 { return measure.Total(f.restarted.requests) })...)
	g.Total("start of `quoin apiserver`", " s", r.values(func(f *figures) float64 { return f.apiserverStarted.Seconds() })...)
	g.Total("start of `quoin gateway`", " s", r.values(func(f *figures) float64 { return f.gatewayStarted.Seconds() })...)
	g.Each("first page of deployments over REST, p99", " ms", r.values(func(f *figures) float64 { return f.pages.Milliseconds(0.99) })...)
	for _, m := range []struct {
		what string
		of   func(f *figures) float64
	}{
		{"controller, rolled out", func(f *figures) float64 { return f.controllerMemory.Resident }},
		{"controller, highest", func(f *figures) float64 { return f.controllerMemory.Peak }},
		{"controller, restarted", func(f *figures) float64 { return f.restartMemory.Resident }},
		{"`quoin apiserver`", func(f *figures) float64 { return f.apiserverMemory.Resident }},
		{"`quoin gateway`", func(f *figures) float64 { return f.gatewayMemory.Resident }},
		{"kube-apiserver", func(f *figures) float64 { return f.kubeAPIServerMemory.Resident }},
		{"etcd", func(f *figures) float64 { return f.etcdMemory.Resident }},
	} {
		g.Total("memory: "+m.what, " MiB", r.values(m.of)...)
	}
	g.Each("etcd, all objects of a deployment", " KiB", r.values(func(f *figures) float64 { return f.stored() / 1024 })...)
	g.Total("etcd, database in use after compaction", " MiB", r.values(func(f *figures) float64 { return f.databaseUsed / (1 << 20) })...)
	g.Total("etcd, database", " MiB", r.values(func(f *figures) float64 { return f.database / (1 << 20) })...)
	return g
}

func (r *report) printWrites(w io.Writer, f *figures) {
	installed, rolledOut := f.installed.writes(), f.rolledOut.writes()
	names := maps.Clone(installed)
	maps.Copy(names, rolledOut)
	fmt.Fprintf(w, "| Writes per deployment, of %d | Installation | Rollout |\n|---|---:|---:|\n", f.n)
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(rolledOut[b], rolledOut[a]), cmp.Compare(installed[b], installed[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(w, "| %s | %.2f | %.2f |\n", name, installed[name]/float64(f.n), rolledOut[name]/float64(f.n))
	}
	fmt.Fprintln(w)
}

func (r *report) printKinds(w io.Writer, f *figures) {
	fmt.Fprintf(w, "| In etcd, of %d deployments | Objects per deployment | Bytes each |\n|---|---:|---:|\n", f.n)
	for _, k := range f.kinds {
		fmt.Fprintf(w, "| %s | %.2f | %.0f |\n", k.Name, float64(k.Count)/float64(f.n), k.Bytes)
	}
	fmt.Fprintln(w)
}
