package measure

import (
	"maps"
	"math"
	"strings"
	"testing"
)

const exposed = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",verb="GET",subverb="x"} 3
requests_total{code="404",verb="GET",subverb=""} 1e+06
requests_total_created{code="200"} 99
memory_bytes_total 7
memory_bytes 2.5e+07
`

func TestMetrics(t *testing.T) {
	got := map[string]float64{}
	for labels, value := range Samples(exposed, "requests_total") {
		got[labels.Value("verb")+" "+labels.Value("code")+" "+labels.Value("none")] = value
	}
	if want := map[string]float64{"GET 200 ": 3, "GET 404 ": 1e6}; !maps.Equal(got, want) {
		t.Errorf("samples are %v, want %v", got, want)
	}
	for name, want := range map[string]float64{"memory_bytes": 2.5e7, "memory": 0, "requests_total": 3} {
		if got := Metric(exposed, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
}

func TestQuantileOfAHistogram(t *testing.T) {
	const text = `queue_seconds_bucket{name="a",le="0.1"} %s
queue_seconds_bucket{name="a",le="1"} %s
queue_seconds_bucket{name="a",le="+Inf"} %s
queue_seconds_bucket{name="b",le="0.1"} 1000
queue_seconds_count{name="a"} 7
`
	read := func(counts ...string) Buckets {
		filled := text
		for _, n := range counts {
			filled = strings.Replace(filled, "%s", n, 1)
		}
		return BucketsOf(filled, "queue_seconds", func(l Labels) bool { return l.Value("name") == "a" })
	}
	for name, tc := range map[string]struct {
		b    Buckets
		q    float64
		want float64
	}{
		"nothing":                    {read("0", "0", "0"), 0.5, 0},
		"no histogram":               {Buckets{}, 0.5, 0},
		"first bucket":               {read("10", "10", "10"), 0.5, 0.05},
		"second bucket":              {read("0", "10", "10"), 0.5, 0.55},
		"at the limit":               {read("5", "10", "10"), 0.5, 0.1},
		"beyond the last limit":      {read("5", "6", "10"), 0.99, 1},
		"since":                      {read("15", "25", "25").Since(read("15", "15", "15")), 0.5, 0.55},
		"since, in the first bucket": {read("25", "25", "25").Since(read("15", "15", "15")), 1, 0.1},
	} {
		if got := tc.b.Quantile(tc.q); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, tc.want)
		}
	}
}
