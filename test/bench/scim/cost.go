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

// cost is the cost of work: processor time in ms by program, and calls of kube-apiserver. Calls depend only on the work,
// so they are comparable even if the machine is busy.
type cost struct{ cpu, calls map[string]float64 }

func newCost() cost { return cost{map[string]float64{}, map[string]float64{}} }

// addOf adds the cost of work, including what other programs do because of it.
func (c cost) addOf(ctx context.Context, w *world, work func() error) error {
	before, err := w.costSoFar(ctx)
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	w.server.Settle(ctx)
	after, err := w.costSoFar(ctx)
	addIncrease(c.cpu, before.cpu, after.cpu)
	addIncrease(c.calls, before.calls, after.calls)
	return err
}

func addIncrease(to, before, after map[string]float64) {
	for name, value := range after {
		to[name] += value - before[name]
	}
}

// costSoFar returns the cost of everything until now.
func (w *world) costSoFar(ctx context.Context) (cost, error) {
	c := newCost()
	for name, seconds := range w.server.ProcessorTime() {
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

// each formats the cost of one of n requests, the largest first.
func each(of map[string]float64, n int) string {
	names := slices.SortedFunc(maps.Keys(of), func(x, y string) int { return cmp.Or(cmp.Compare(of[y], of[x]), strings.Compare(x, y)) })
	var parts []string
	for _, name := range names {
		if value := of[name] / float64(n); value >= 0.01 {
			parts = append(parts, fmt.Sprintf("%s %.2f", name, value))
		}
	}
	return strings.Join(parts, ", ")
}
