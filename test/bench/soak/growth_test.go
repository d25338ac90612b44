package soak_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGrows(t *testing.T) {
	samples := func(n int, of func(i float64) usage) []usage {
		all := make([]usage, n)
		for i := range all {
			all[i] = of(float64(i))
		}
		return all
	}
	for name, tc := range map[string]struct {
		samples []usage
		want    string // part of the error; "" for none
	}{
		"flat":             {samples(30, func(float64) usage { return usage{goroutines: 90, memory: 20 << 20} }), ""},
		"caches fill":      {samples(30, func(i float64) usage { return usage{90, 20<<20 + i*(1<<20), i * 200} }), ""},
		"start-up":         {samples(30, func(i float64) usage { return usage{goroutines: 90 + min(i, 10)*100, memory: min(i, 10) * (40 << 20)} }), ""},
		"one outlier":      {append(samples(29, func(float64) usage { return usage{goroutines: 90} }), usage{900, 900 << 20, 0}), ""},
		"goroutines leak":  {samples(30, func(i float64) usage { return usage{goroutines: 90 + 3*i} }), "goroutines"},
		"memory leaks":     {samples(30, func(i float64) usage { return usage{goroutines: 90, memory: i * (1 << 20)} }), "MiB of memory"},
		"too few":          {samples(5, func(float64) usage { return usage{} }), "only 5 samples"},
		"just enough":      {samples(6, func(float64) usage { return usage{} }), ""},
		"more per object":  {samples(30, func(i float64) usage { return usage{90, i * (1 << 20), i * 10} }), "MiB of memory"},
		"fewer goroutines": {samples(30, func(i float64) usage { return usage{goroutines: 900 - 10*i} }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := grows(tc.samples)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	r := &writer{acknowledged: []string{"a", "b", "c", "d"}, failed: []string{"e", "f", "g"}}
	stored := map[string]int{"a": 1, "c": 2, "d": 1, "e": 1, "f": 2}
	events := map[string]int{"a": 1, "b": 1, "c": 1, "e": 2}
	want := findings{lost: []string{"b"}, doubled: []string{"c", "f"}, eventsLost: []string{"d"}, eventsDoubled: []string{"e"}}
	if diff := cmp.Diff(want, r.judge(stored, events), cmp.AllowUnexported(findings{})); diff != "" {
		t.Error(diff)
	}
}
