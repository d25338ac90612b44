package measure

import (
	"maps"
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
