package main

import (
	"fmt"
	"io"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// report is the measurements and their costs.
type report struct {
	measure.Report
	costs []string
}

// Work that the peer also does.
const (
	workCreate = "POST /Users"
	workLookup = "userName eq"
)

// cost adds the cost of n requests.
func (r *report) cost(what string, c cost, n int) {
	r.costs = append(r.costs, fmt.Sprintf("| %s | %s | %s |", what, each(c.cpu, n), each(c.calls, n)))
}

// print writes Markdown tables: the figures with bars, the measurements, the costs.
func (r *report) print(w io.Writer) {
	r.PrintBars(w)
	r.PrintRows(w, "Requests")
	fmt.Fprintln(w, "\n| Cost of one | Processor time, ms | Calls of kube-apiserver |\n|---|---|---|")
	for _, line := range r.costs {
		fmt.Fprintln(w, line)
	}
}
