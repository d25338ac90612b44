package measure

import (
	"fmt"
	"io"
)

// Report is what was found, row by row, and the bars.
type Report struct {
	rows []row
	Bars
}

// row is one kind of work.
type row struct {
	what  string
	times Times
	note  string
}

// Empty is true when nothing was found.
func (r *Report) Empty() bool { return len(r.rows) == 0 }

// Find is what was measured of a kind of work.
func (r *Report) Find(what string) Times {
	for _, x := range r.rows {
		if x.what == what {
			return x.times
		}
	}
	return Times{}
}

// Add adds a row with times.
func (r *Report) Add(what string, t Times, note string, args ...any) {
	note = fmt.Sprintf(note, args...)
	r.rows = append(r.rows, row{what, t, note})
	Progress("  %s: p50 %.2f ms, p99 %.2f ms, %.0f/s %s", what, t.Milliseconds(0.5), t.Milliseconds(0.99), t.PerSecond(), note)
}

// Fact adds a row without times.
func (r *Report) Fact(what, note string, args ...any) {
	note = fmt.Sprintf(note, args...)
	r.rows = append(r.rows, row{what: what, note: note})
	Progress("  %s: %s", what, note)
}

// PrintRows writes a table in Markdown. The pieces of work are called what the caller calls them.
func (r *Report) PrintRows(w io.Writer, pieces string) {
	fmt.Fprintf(w, "| Work | %s | p50 ms | p99 ms | /s | |\n|---|---:|---:|---:|---:|---|\n", pieces)
	for _, x := range r.rows {
		if len(x.times.Each) == 0 {
			fmt.Fprintf(w, "| %s | | | | | %s |\n", x.what, x.note)
			continue
		}
		fmt.Fprintf(w, "| %s | %d | %.2f | %.2f | %.0f | %s |\n",
			x.what, len(x.times.Each), x.times.Milliseconds(0.5), x.times.Milliseconds(0.99), x.times.PerSecond(), x.note)
	}
}

// Bars are what is wanted, and what it became.
type Bars struct{ bars []bar }

type bar struct {
	what, wanted, got string
	kept              bool
}

// AtMost wants less than a limit.
func (b *Bars) AtMost(what string, got, limit float64, unit string) {
	b.bars = append(b.bars, bar{what, fmt.Sprintf("< %g%s", limit, unit), fmt.Sprintf("%.2f%s", got, unit), got < limit})
}

// AtLeast wants a limit or more.
func (b *Bars) AtLeast(what string, got, limit float64, unit string) {
	b.bars = append(b.bars, bar{what, fmt.Sprintf("≥ %g%s", limit, unit), fmt.Sprintf("%.2f%s", got, unit), got >= limit})
}

// Missed is a bar that was missed because nothing was measured.
func (b *Bars) Missed(what, wanted, why string) {
	b.bars = append(b.bars, bar{what, wanted, why, false})
}

// PrintBars writes a table in Markdown.
func (b *Bars) PrintBars(w io.Writer) {
	fmt.Fprintln(w, "\n| Bar | Wanted | Measured | |\n|---|---:|---:|---|")
	for _, x := range b.bars {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", x.what, x.wanted, x.got, map[bool]string{true: "kept", false: "**missed**"}[x.kept])
	}
}
