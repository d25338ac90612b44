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
	r.Fact("fact", "**%s**", "so")
	r.AtMost("short", 4.999, 5, " ms")
	r.AtMost("long", 5, 5, " ms")
	r.AtLeast("enough", 0.45, 0.45, "")
	r.AtLeast("few", 0.44, 0.45, "")
	r.Missed("none", "≥ 1", "not here")
	if r.Empty() || len(r.Find("work").Each) != 2 || len(r.Find("other").Each) != 0 {
		t.Error("what was found is not found again")
	}
	var got strings.Builder
	r.PrintRows(&got, "Times")
	r.PrintBars(&got)
	const want = `| Work | Times | p50 ms | p99 ms | /s | |
|---|---:|---:|---:|---:|---|
| work | 2 | 2.00 | 2.00 | 2 | 4 at once |
| fact | | | | | **so** |

| Bar | Wanted | Measured | |
|---|---:|---:|---|
| short | < 5 ms | 5.00 ms | kept |
| long | < 5 ms | 5.00 ms | **missed** |
| enough | ≥ 0.45 | 0.45 | kept |
| few | ≥ 0.45 | 0.44 | **missed** |
| none | ≥ 1 | not here | **missed** |
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}
