package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// report is the result of the bench.
type report struct {
	options options
	// works are the results by kind of work, in order.
	works   []*result
	memory  []memoryUse
	skipped []string
}

// result is the result of one kind of work.
type result struct {
	what string
	// targets are in display order; samples are by target, one per round.
	targets []string
	samples map[string][]sample
}

// Names of the targets.
const (
	nameGateway = "quoin gateway"
	nameCaddy   = "Caddy"
	nameNginx   = "nginx"
	nameDirect  = "the backend itself"
)

func (r *report) add(work int, what, target string, s sample) {
	for len(r.works) <= work {
		r.works = append(r.works, &result{samples: map[string][]sample{}})
	}
	k := r.works[work]
	k.what = what
	if !slices.Contains(k.targets, target) {
		k.targets = append(k.targets, target)
	}
	k.samples[target] = append(k.samples[target], s)
	measure.Progress("  %-24s %-18s %7.0f/s  p50 %6.2f ms  p99 %7.2f ms  %5.0f µs of a processor", what, target, s.perSecond, s.p50, s.p99, s.processor)
}

// of returns the median of a figure over the rounds.
func (k *result) of(target string, figure func(sample) float64) float64 {
	var all []float64
	for _, s := range k.samples[target] {
		all = append(all, figure(s))
	}
	return measure.Median(all)
}

// perRound combines the samples of two targets, round by round.
func (k *result) perRound(a, b string, combine func(a, b sample) float64) []float64 {
	var all []float64
	for i, s := range k.samples[a] {
		if i < len(k.samples[b]) {
			all = append(all, combine(s, k.samples[b][i]))
		}
	}
	return all
}

func perSecond(s sample) float64     { return s.perSecond }
func p50(s sample) float64           { return s.p50 }
func p99(s sample) float64           { return s.p99 }
func processor(s sample) float64     { return s.processor }
func ratio(a, b sample) float64      { return a.perSecond / b.perSecond }
func difference(a, b sample) float64 { return a.p50 - b.p50 }

// print writes Markdown tables: the figures with bars, the measurements, the ratios of each round, memory.
func (r *report) print(w io.Writer) {
	r.compareWithBars().PrintBars(w)
	fmt.Fprintln(w, "| Work (medians of the rounds) | Target | /s | p50 ms | p99 ms | p50 added, ms | Processor time a request, µs | Throughput of the gateway ÷ target |\n|---|---|---:|---:|---:|---:|---:|---:|")
	for _, k := range r.works {
		for _, t := range k.targets {
			added, quotient := "", ""
			if t != nameDirect {
				added = fmt.Sprintf("%.2f", measure.Median(k.perRound(t, nameDirect, difference)))
			}
			if t != nameGateway && k != r.works[workRate] {
				quotient = fmt.Sprintf("%.2f", measure.Median(k.perRound(nameGateway, t, ratio)))
			}
			fmt.Fprintf(w, "| %s | %s | %.0f | %.2f | %.2f | %s | %.0f | %s |\n", k.what, t, k.of(t, perSecond), k.of(t, p50), k.of(t, p99), added, k.of(t, processor), quotient)
		}
	}
	r.printRounds(w)
	if len(r.memory) > 0 {
		fmt.Fprintln(w, "\n| Memory | At rest, MiB | With idle connections | MiB | KiB each |\n|---|---:|---:|---:|---:|")
		for _, m := range r.memory {
			fmt.Fprintf(w, "| %s | %.0f | %d | %.0f | %.1f |\n", m.name, m.before, m.connections, m.after, (m.after-m.before)*1024/float64(m.connections))
		}
	}
	for _, what := range r.skipped {
		fmt.Fprintf(w, "\n%s\n", what)
	}
}

// printRounds prints the ratios of each round.
func (r *report) printRounds(w io.Writer) {
	fmt.Fprint(w, "\n| Throughput of the gateway ÷ target, by round |")
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

// compareWithBars returns the figures that have bars.
func (r *report) compareWithBars() *measure.Bars {
	const added = 0.3
	bars := &measure.Bars{}
	for _, peer := range []struct {
		name string
		bar  float64
	}{{nameCaddy, 1.3}, {nameNginx, 0.6}} {
		for _, i := range []int{workSmall, workLarge} {
			k := r.works[i]
			what := fmt.Sprintf("throughput ÷ %s, %s", peer.name, k.what)
			ratios := k.perRound(nameGateway, peer.name, ratio)
			if len(ratios) == 0 {
				bars.Missed(what, fmt.Sprintf("≥ %g", peer.bar), peer.name+" skipped")
				continue
			}
			bars.AtLeast(fmt.Sprintf("%s (%.2f to %.2f)", what, slices.Min(ratios), slices.Max(ratios)), measure.Median(ratios), peer.bar, "")
		}
	}
	for _, i := range []int{workOne, workRate} {
		k := r.works[i]
		bars.AtMost("latency added to the median, "+k.what, measure.Median(k.perRound(nameGateway, nameDirect, difference)), added, " ms")
	}
	return bars
}
