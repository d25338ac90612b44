package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// report is what was found.
type report struct {
	options options
	// works are the kinds of work, in order.
	works   []*result
	weights []weighed
	skipped []string
	measure.Bars
}

// result is what came of one kind of work.
type result struct {
	what string
	// targets in the order in which they are shown; turns by target, one for each round.
	targets []string
	turns   map[string][]turn
}

// How the gateway and what is nearest to it are named.
const (
	nameGateway = "quoin gateway"
	nameCaddy   = "Caddy"
	nameDirect  = "the backend itself"
)

func (r *report) add(work int, what, target string, t turn) {
	for len(r.works) <= work {
		r.works = append(r.works, &result{turns: map[string][]turn{}})
	}
	k := r.works[work]
	k.what = what
	if !slices.Contains(k.targets, target) {
		k.targets = append(k.targets, target)
	}
	k.turns[target] = append(k.turns[target], t)
	measure.Progress("  %-24s %-18s %7.0f/s  p50 %6.2f ms  p99 %7.2f ms  %5.0f µs of a processor", what, target, t.perSecond, t.p50, t.p99, t.processor)
}

// of is the median of something over the rounds.
func (k *result) of(target string, what func(turn) float64) float64 {
	var all []float64
	for _, t := range k.turns[target] {
		all = append(all, what(t))
	}
	return measure.Median(all)
}

// perRound combines two targets, round by round.
func (k *result) perRound(a, b string, combine func(a, b turn) float64) []float64 {
	var all []float64
	for i, t := range k.turns[a] {
		if i < len(k.turns[b]) {
			all = append(all, combine(t, k.turns[b][i]))
		}
	}
	return all
}

func perSecond(t turn) float64     { return t.perSecond }
func p50(t turn) float64           { return t.p50 }
func p99(t turn) float64           { return t.p99 }
func processor(t turn) float64     { return t.processor }
func ratio(a, b turn) float64      { return a.perSecond / b.perSecond }
func difference(a, b turn) float64 { return a.p50 - b.p50 }

// print writes tables in Markdown: the measurements, the ratios of each round, memory, the bars.
func (r *report) print(w io.Writer) {
	fmt.Fprintln(w, "| Work (medians of the rounds) | Through | /s | p50 ms | p99 ms | p50 added, ms | Processor, µs each | Gateway ÷ this |\n|---|---|---:|---:|---:|---:|---:|---:|")
	for _, k := range r.works {
		for _, t := range k.targets {
			added, part := "", ""
			if t != nameDirect {
				added = fmt.Sprintf("%.2f", measure.Median(k.perRound(t, nameDirect, difference)))
			}
			if t != nameGateway && k != r.works[workRate] {
				part = fmt.Sprintf("%.2f", measure.Median(k.perRound(nameGateway, t, ratio)))
			}
			fmt.Fprintf(w, "| %s | %s | %.0f | %.2f | %.2f | %s | %.0f | %s |\n", k.what, t, k.of(t, perSecond), k.of(t, p50), k.of(t, p99), added, k.of(t, processor), part)
		}
	}
	r.printRounds(w)
	if len(r.weights) > 0 {
		fmt.Fprintln(w, "\n| Memory | At rest, MiB | With idle connections | MiB | KiB each |\n|---|---:|---:|---:|---:|")
		for _, m := range r.weights {
			fmt.Fprintf(w, "| %s | %.0f | %d | %.0f | %.1f |\n", m.name, m.before, m.connections, m.after, (m.after-m.before)*1024/float64(m.connections))
		}
	}
	for _, what := range r.skipped {
		fmt.Fprintf(w, "\n%s\n", what)
	}
	r.judge()
	r.PrintBars(w)
}

// printRounds shows what the medians are of.
func (r *report) printRounds(w io.Writer) {
	fmt.Fprint(w, "\n| Gateway ÷ other, round by round |")
	for round := range r.options.rounds {
		fmt.Fprintf(w, " %d |", round+1)
	}
	fmt.Fprint(w, "\n|---|")
	for range r.options.rounds {
		fmt.Fprint(w, "---:|")
	}
	fmt.Fprintln(w)
	for _, k := range r.works[:workRate] {
		for _, t := range k.targets {
			if t == nameGateway || t == nameDirect {
				continue
			}
			fmt.Fprintf(w, "| %s, %s |", k.what, t)
			for _, x := range k.perRound(nameGateway, t, ratio) {
				fmt.Fprintf(w, " %.2f |", x)
			}
			fmt.Fprintln(w)
		}
	}
}

// judge compares with the bars.
func (r *report) judge() {
	const throughput, added = 0.8, 1.0
	for _, i := range []int{workSmall, workLarge} {
		k := r.works[i]
		ratios := k.perRound(nameGateway, nameCaddy, ratio)
		if len(ratios) == 0 {
			r.Missed(k.what+", of Caddy's throughput", fmt.Sprintf("≥ %g", throughput), "no Caddy")
			continue
		}
		r.AtLeast(k.what+", of Caddy's throughput", measure.Median(ratios), throughput, "")
	}
	for _, i := range []int{workOne, workRate} {
		k := r.works[i]
		r.AtMost(k.what+", added to the median", measure.Median(k.perRound(nameGateway, nameDirect, difference)), added, " ms")
	}
}
