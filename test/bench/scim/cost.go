package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
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

// processors is the time of all programs together.
func (c cost) processors() (sum float64) {
	for _, ms := range c.cpu {
		sum += ms
	}
	return sum
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
	for line := range bytes.Lines(metrics) {
		labels, ok := strings.CutPrefix(string(line), "apiserver_request_total{")
		if !ok || !strings.Contains(labels, `group="platform.quoin.dev"`) {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		label := func(name string) string {
			_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
			text, _, _ := strings.Cut(rest, `"`)
			return text
		}
		call := label("verb") + " " + label("resource")
		if sub := label("subresource"); sub != "" {
			call += "/" + sub
		}
		if code := label("code"); code >= "400" {
			call += " (" + code + ")"
		}
		count, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if label("verb") != "WATCH" {
			c.calls[call] += count
		}
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
