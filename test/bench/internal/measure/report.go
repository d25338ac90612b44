package measure

import (
	"fmt"
	"io"
	"strconv"
)

// Report collects the measurements of a bench, and compares figures with their bars.
type Report struct {
	rows []row
	Bars
}

// row is a kind of work with its times, or a fact without times.
type row struct {
	what  string
	times Times
	note  string
}

// Empty reports whether nothing was measured.
func (r *Report) Empty() bool { return len(r.rows) == 0 }

// Find returns the times of a kind of work; no times if it was not measured.
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

// PrintRows writes the rows as a Markdown table. count is the heading of the column with the number of times.
func (r *Report) PrintRows(w io.Writer, count string) {
	fmt.Fprintf(w, "| Work | %s | p50 ms | p99 ms | /s | |\n|---|---:|---:|---:|---:|---|\n", count)
	for _, x := range r.rows {
		if len(x.times.Each) == 0 {
			fmt.Fprintf(w, "| %s | | | | | %s |\n", x.what, x.note)
			continue
		}
		fmt.Fprintf(w, "| %s | %d | %.2f | %.2f | %.0f | %s |\n",
			x.what, len(x.times.Each), x.times.Milliseconds(0.5), x.times.Milliseconds(0.99), x.times.PerSecond(), x.note)
	}
}

// Bars are figures with the limits that the project sets for them.
type Bars struct{ bars []bar }

type bar struct {
	what, got, limit string
	met              bool
}

// AtMost adds a figure that must not exceed a limit.
func (b *Bars) AtMost(what string, got, limit float64, unit string) {
	b.bars = append(b.bars, bar{what, number(got) + unit, "≤ " + number(limit) + unit, got <= limit})
}

// AtLeast adds a figure that must reach a limit.
func (b *Bars) AtLeast(what string, got, limit float64, unit string) {
	b.bars = append(b.bars, bar{what, number(got) + unit, "≥ " + number(limit) + unit, got >= limit})
}

// Missed adds a bar that is missed because nothing was measured.
func (b *Bars) Missed(what, limit, reason string) {
	b.bars = append(b.bars, bar{what, reason, limit, false})
}

// PrintBars writes the figures beside their bars as a Markdown table.
func (b *Bars) PrintBars(w io.Writer) {
	fmt.Fprint(w, "| Figure | Measured | Bar | |\n|---|---:|---:|---|\n")
	for _, x := range b.bars {
		result := "met"
		if !x.met {
			result = "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", x.what, x.got, x.limit, result)
	}
	fmt.Fprintln(w)
}

// number formats a figure with three significant digits, and thousands with separators.
func number(value float64) string {
	switch {
	case value >= 1000:
		whole := strconv.FormatFloat(value, 'f', 0, 64)
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
		return whole
	case value >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case value == float64(int(value)):
		return strconv.Itoa(int(value))
	case value >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}
