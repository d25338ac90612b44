package measure

import (
	"iter"
	"maps"
	"math"
	"slices"
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

// Buckets are the counts of a histogram by the upper limit of the bucket; each includes those below.
type Buckets map[float64]float64

// BucketsOf returns the sum of the histograms of a metric whose labels match.
func BucketsOf(text, metric string, matches func(Labels) bool) Buckets {
	all := Buckets{}
	for labels, count := range Samples(text, metric+"_bucket") {
		if limit, err := strconv.ParseFloat(labels.Value("le"), 64); err == nil && matches(labels) {
			all[limit] += count
		}
	}
	return all
}

// Since returns what was counted since an earlier reading.
func (b Buckets) Since(before Buckets) Buckets {
	more := Buckets{}
	for limit, count := range b {
		more[limit] = count - before[limit]
	}
	return more
}

// Quantile returns a quantile, interpolated within its bucket as Prometheus does, or 0 if nothing was counted. In the last
// bucket, which has no limit, it is the limit of the bucket before.
func (b Buckets) Quantile(q float64) float64 {
	limits := slices.Sorted(maps.Keys(b))
	if len(limits) == 0 {
		return 0
	}
	rank := q * b[limits[len(limits)-1]]
	low, below := 0.0, 0.0
	for _, limit := range limits {
		if count := b[limit]; count >= rank && count > 0 {
			if math.IsInf(limit, 1) {
				return low
			}
			return low + (limit-low)*(rank-below)/max(count-below, 1)
		}
		low, below = limit, b[limit]
	}
	return 0
}
