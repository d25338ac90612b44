package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// maxRatio is the bar: the p99 under an attack ÷ that without one.
const maxRatio = 2

// row has the measurements of an attack.
type row struct {
	attack attack
	// quiet is measured without an attack, beside beside a program that uses processor time, under under the attack.
	quiet, beside, under measure.Times
	// ratios are the ratios of the rounds.
	ratios []float64
	// failed is the number of requests that failed under the attack, and err one of the errors.
	failed   int64
	err      error
	outcomes map[string]int
	// processors is the processor time of the attacker, by round.
	processors []float64
}

func (x *row) add(quiet, beside, under result, u use) {
	x.quiet, x.beside, x.under = x.quiet.With(quiet.Times), x.beside.With(beside.Times), x.under.With(under.Times)
	x.ratios = append(x.ratios, p99(under.Times)/p99(quiet.Times))
	x.failed += under.failed
	if x.err == nil {
		x.err = under.err
	}
	if x.outcomes == nil {
		x.outcomes = map[string]int{}
	}
	for what, n := range u.outcomes {
		x.outcomes[what] += n
	}
	x.processors = append(x.processors, u.processors)
	measure.Progress("  p99 %.2f ms quiet, %.2f ms beside a busy program, %.2f ms under attack: ratio %.2f; %d failed; attacker %.2f processors, %v",
		p99(quiet.Times), p99(beside.Times), p99(under.Times), x.ratios[len(x.ratios)-1], under.failed, u.processors, u.outcomes)
	if under.err != nil {
		measure.Progress("  %v", under.err)
	}
}

func p99(t measure.Times) float64 { return t.Milliseconds(0.99) }

// ratio is the ratio of all rounds together.
func (x *row) ratio() float64 { return p99(x.under) / p99(x.quiet) }

// report has the attacks that were measured, in order.
type report struct{ rows []*row }

func (r *report) add(x *row) { r.rows = append(r.rows, x) }

// print writes Markdown tables: the ratios with their bar, and what the attackers did.
func (r *report) print(w io.Writer) {
	fmt.Fprint(w, "| Attack | Attacker | Work of the other tenant | p99 quiet, ms | p99 beside a busy program, ms | p99 under attack, ms | Ratio (rounds) | Bar | |\n"+
		"|---|---|---|---:|---:|---:|---:|---:|---|\n")
	for _, x := range r.rows {
		verdict := "met"
		switch {
		case x.failed > 0:
			verdict = fmt.Sprintf("**missed**: %d of %d requests failed", x.failed, len(x.under.Each))
		case x.ratio() > maxRatio:
			verdict = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %.2f | %.2f | %.2f | %.2f (%.2f to %.2f) | ≤ %d | %s |\n", x.attack.name, x.attack.attacker, x.attack.victim,
			p99(x.quiet), p99(x.beside), p99(x.under), x.ratio(), slices.Min(x.ratios), slices.Max(x.ratios), maxRatio, verdict)
	}
	fmt.Fprint(w, "\n| Attack | Processors of the attacker | What it did, in all rounds |\n|---|---:|---|\n")
	for _, x := range r.rows {
		fmt.Fprintf(w, "| %s | %.2f | %s |\n", x.attack.name, measure.Median(x.processors), describe(x.outcomes))
	}
}

// describe lists outcomes, the most frequent first.
func describe(outcomes map[string]int) string {
	names := slices.SortedFunc(maps.Keys(outcomes), func(a, b string) int {
		if outcomes[a] != outcomes[b] {
			return outcomes[b] - outcomes[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%d × %s", outcomes[name], name)
	}
	return strings.Join(parts, ", ")
}
