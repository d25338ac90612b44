package measure

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	r := &Report{}
	if !r.Empty() {
		t.Error("a new report is not empty")
	}
	r.Add("work", Times{Each: []time.Duration{2 * time.Millisecond, time.Millisecond}, Took: time.Second}, "%d at once", 4)
	r.Fact("fact", "**%s**", "note")
	r.AtMost("at the limit", 5, 5, " ms")
	r.AtMost("above the limit", 5.01, 5, " ms")
	r.AtLeast("enough", 219_485.4, 200_000, "/s")
	r.AtLeast("too few", 0.54, 0.55, "")
	r.Missed("not measured", "≥ 1", "not installed")
	if r.Empty() || len(r.Find("work").Each) != 2 || len(r.Find("other").Each) != 0 {
		t.Error("Find does not return the times of the row")
	}
	var got strings.Builder
	r.PrintBars(&got)
	r.PrintRows(&got, "Times")
	const want = `| Figure | Measured | Bar | |
|---|---:|---:|---|
| at the limit | 5 ms | ≤ 5 ms | met |
| above the limit | 5.01 ms | ≤ 5 ms | **missed** |
| enough | 219,485/s | ≥ 200,000/s | met |
| too few | 0.54 | ≥ 0.55 | **missed** |
| not measured | not installed | ≥ 1 | **missed** |

| Work | Times | p50 ms | p99 ms | /s | |
|---|---:|---:|---:|---:|---|
| work | 2 | 2.00 | 2.00 | 2 | 4 at once |
| fact | | | | | **note** |
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.054: "0.05", 1.15: "1.15", 8: "8", 12.34: "12.3", 99.5: "99.5", 192: "192", 1234: "1,234", 1_234_567.8: "1,234,568"} {
		if got := number(value); got != want {
			t.Errorf("number(%g) is %q, want %q", value, got, want)
		}
	}
}
