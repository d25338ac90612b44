package measure

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Sizes is a flag with increasing numbers of objects, such as 1000,3000.
type Sizes []int

// String implements flag.Value.
func (s *Sizes) String() string {
	texts := make([]string, len(*s))
	for i, n := range *s {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

// Set implements flag.Value.
func (s *Sizes) Set(text string) error {
	var all Sizes
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return fmt.Errorf("%q: want numbers of 1 or more, separated by commas", part)
		}
		all = append(all, n)
	}
	if !slices.IsSortedFunc(all, cmp.Compare[int]) {
		return fmt.Errorf("%q: want increasing numbers", text)
	}
	*s = all
	return nil
}

// Growth is a table of figures at increasing numbers of objects.
type Growth struct {
	// Sizes are the numbers of objects, the columns.
	Sizes []int
	rows  []growing
}

type growing struct {
	what, unit string
	values     []float64
	total      bool
}

// NotMeasured is the value of a figure that was not measured at a number of objects.
var NotMeasured = math.NaN()

// Each adds a figure that stays the same if the costs are proportional to the number of objects.
func (g *Growth) Each(what, unit string, values ...float64) {
	g.rows = append(g.rows, growing{what, unit, values, false})
}

// Total adds a figure that is proportional to the number of objects, apart from a constant part.
func (g *Growth) Total(what, unit string, values ...float64) {
	g.rows = append(g.rows, growing{what, unit, values, true})
}

// proportional is the growth up to which a figure counts as proportional.
const proportional = 1.2

// Print writes a Markdown table. The last column compares the growth of the figure with that of the number of objects: 1.0 is
// proportional, more than that is marked.
func (g *Growth) Print(w io.Writer, of string) {
	fmt.Fprintf(w, "| %s |", of)
	for _, n := range g.Sizes {
		fmt.Fprintf(w, " %s |", number(float64(n)))
	}
	fmt.Fprintf(w, " Growth |\n|---|%s\n", strings.Repeat("---:|", len(g.Sizes)+1))
	for _, row := range g.rows {
		fmt.Fprintf(w, "| %s |", row.what)
		for _, v := range row.values {
			if math.IsNaN(v) {
				fmt.Fprint(w, " not measured |")
			} else {
				fmt.Fprintf(w, " %s%s |", number(v), row.unit)
			}
		}
		fmt.Fprintf(w, " %s |\n", row.growth(g.Sizes))
	}
	fmt.Fprintln(w)
}

// growth returns the growth from the first to the last size, divided by that of the sizes for totals.
func (r growing) growth(sizes []int) string {
	last := len(r.values) - 1
	if last < 1 || r.values[0] == 0 {
		return ""
	}
	ratio := r.values[last] / r.values[0]
	if math.IsNaN(ratio) {
		return ""
	}
	if r.total {
		ratio *= float64(sizes[0]) / float64(sizes[last])
	}
	text := strconv.FormatFloat(ratio, 'f', 2, 64)
	if ratio > proportional {
		return "**" + text + "**"
	}
	return text
}
