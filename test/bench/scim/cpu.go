package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// addIncrease adds what the processes have used between two readings.
func addIncrease(to, before, after map[string]float64) {
	for name, seconds := range after {
		to[name] += seconds - before[name]
	}
}

// perRequest says how long the processes had a processor for each of n requests, the busiest first.
func perRequest(used map[string]float64, n int) string {
	names := slices.SortedFunc(maps.Keys(used), func(x, y string) int { return cmp.Compare(used[y], used[x]) })
	var said []string
	for _, name := range names {
		if ms := 1000 * used[name] / float64(n); ms >= 0.01 {
			said = append(said, fmt.Sprintf("%s %.2f", name, ms))
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "CPU ms each: " + strings.Join(said, ", ")
}

func least(of []float64) float64 { return slices.Min(of) }
func most(of []float64) float64  { return slices.Max(of) }
