package main

import (
	"fmt"
	"io"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// report is what was found, and what it costs.
type report struct {
	measure.Report
	costs []string
}

// Work that the peer does too.
const (
	workCreate = "POST /Users"
	workLookup = "userName eq"
)

// cost is what n requests have used.
func (r *report) cost(what string, c cost, n int) {
	r.costs = append(r.costs, fmt.Sprintf("| %s | %s | %s |", what, each(c.cpu, n), each(c.calls, n)))
}

// print writes tables in Markdown: the measurements, what they cost, the bars.
func (r *report) print(w io.Writer) {
	r.PrintRows(w, "Requests")
	fmt.Fprintln(w, "\n| One costs | CPU, ms | Calls of the API server |\n|---|---|---|")
	for _, line := range r.costs {
		fmt.Fprintln(w, line)
	}
	r.PrintBars(w)
}
