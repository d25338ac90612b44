package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// report is what was found.
type report struct {
	rows []row
	bars []bar
}

// row is one kind of work.
type row struct {
	what string
	measured
	note string
}

// bar is what is asked for, and what it became.
type bar struct {
	what, unit string
	got, limit float64
	atMost     bool
}

func (r *report) add(what string, m measured, note string, args ...any) {
	r.rows = append(r.rows, row{what, m, fmt.Sprintf(note, args...)})
	progress("  %s: p50 %.2f ms, p99 %.2f ms, %.0f/s %s", what, m.ms(0.5), m.ms(0.99), m.perSecond(), r.rows[len(r.rows)-1].note)
}

// fact is a row without times.
func (r *report) fact(what, note string, args ...any) {
	r.rows = append(r.rows, row{what: what, note: fmt.Sprintf(note, args...)})
	progress("  %s: %s", what, r.rows[len(r.rows)-1].note)
}

func (r *report) atMost(what string, got, limit float64, unit string) {
	r.bars = append(r.bars, bar{what, unit, got, limit, true})
}

func (r *report) atLeast(what string, got, limit float64, unit string) {
	r.bars = append(r.bars, bar{what, unit, got, limit, false})
}

// print writes tables in Markdown: the measurements, then the bars.
func (r *report) print(w io.Writer) {
	fmt.Fprintln(w, "| Work | Times | p50 ms | p99 ms | /s | |\n|---|---:|---:|---:|---:|---|")
	for _, x := range r.rows {
		if len(x.each) == 0 {
			fmt.Fprintf(w, "| %s | | | | | %s |\n", x.what, x.note)
			continue
		}
		fmt.Fprintf(w, "| %s | %d | %.2f | %.2f | %.0f | %s |\n", x.what, len(x.each), x.ms(0.5), x.ms(0.99), x.perSecond(), x.note)
	}
	fmt.Fprintln(w, "\n| Bar | Wanted | Measured | |\n|---|---:|---:|---|")
	for _, b := range r.bars {
		sign, kept := "≥", b.got >= b.limit
		if b.atMost {
			sign, kept = "<", b.got < b.limit
		}
		fmt.Fprintf(w, "| %s | %s %g%s | %.2f%s | %s |\n", b.what, sign, b.limit, b.unit, b.got, b.unit, map[bool]string{true: "kept", false: "**missed**"}[kept])
	}
}

// load says how busy the machine is, where that can be known.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
