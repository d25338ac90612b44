package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// cost is what work uses: time of the processors in ms by program, and calls of the API server. Calls
// depend on nothing but the work, so they tell more than times where the machine is busy.
type cost struct{ cpu, calls map[string]float64 }

func newCost() cost { return cost{map[string]float64{}, map[string]float64{}} }

// spending adds to a cost what the work uses, and what others do because of it.
func (c cost) spending(ctx context.Context, w *world, work func() error) error {
	before, err := w.spent(ctx)
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	w.settle(ctx)
	after, err := w.spent(ctx)
	addIncrease(c.cpu, before.cpu, after.cpu)
	addIncrease(c.calls, before.calls, after.calls)
	return err
}

func addIncrease(to, before, after map[string]float64) {
	for name, value := range after {
		to[name] += value - before[name]
	}
}

// spent is the cost of everything until now.
func (w *world) spent(ctx context.Context) (cost, error) {
	c := newCost()
	for name, seconds := range w.processorTime() {
		c.cpu[name] = 1000 * seconds
	}
	metrics, _, err := w.root.call(ctx, http.MethodGet, "/metrics", nil, http.StatusOK)
	if err != nil {
		return c, err
	}
	for labels, count := range measure.Samples(string(metrics), "apiserver_request_total") {
		if labels.Value("group") != "platform.quoin.dev" || labels.Value("verb") == "WATCH" {
			continue
		}
		call := labels.Value("verb") + " " + labels.Value("resource")
		if sub := labels.Value("subresource"); sub != "" {
			call += "/" + sub
		}
		if code := labels.Value("code"); code >= "400" {
			call += " (" + code + ")"
		}
		c.calls[call] += count
	}
	return c, nil
}

// each says what one of n requests uses, the largest first.
func each(of map[string]float64, n int) string {
	names := slices.SortedFunc(maps.Keys(of), func(x, y string) int { return cmp.Or(cmp.Compare(of[y], of[x]), strings.Compare(x, y)) })
	var said []string
	for _, name := range names {
		if value := of[name] / float64(n); value >= 0.01 {
			said = append(said, fmt.Sprintf("%s %.2f", name, value))
		}
	}
	return strings.Join(said, ", ")
}
