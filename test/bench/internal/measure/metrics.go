package measure

import (
	"iter"
	"strconv"
	"strings"
)

// Labels are the labels of a sample, such as `verb="GET",code="200"`.
type Labels string

// Value returns the value of a label, or "".
func (l Labels) Value(name string) string {
	_, rest, _ := strings.Cut(","+string(l), ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Samples iterates over the samples of one metric in Prometheus' text format.
func Samples(text, metric string) iter.Seq2[Labels, float64] {
	return func(yield func(Labels, float64) bool) {
		for line := range strings.Lines(text) {
			rest, ok := strings.CutPrefix(line, metric)
			labels := ""
			switch {
			case !ok:
				continue
			case strings.HasPrefix(rest, "{"):
				labels, rest, _ = strings.Cut(rest[1:], "} ")
			case !strings.HasPrefix(rest, " "): // a metric with a longer name
				continue
			}
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err == nil && !yield(Labels(labels), value) {
				return
			}
		}
	}
}

// Metric returns the value of the first sample of a metric, or 0.
func Metric(text, metric string) float64 {
	for _, value := range Samples(text, metric) {
		return value
	}
	return 0
}
