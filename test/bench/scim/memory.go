package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// memory of a process, in MiB.
type memory struct{ resident, live float64 }

// memory reads /proc, and what Go found live when it last collected from the metrics at an address;
// zeroes where these are not.
func (p *process) memory(metrics string) memory {
	m := memory{}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid)) // not everywhere
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		kib, _ := strconv.ParseFloat(fields[0], 64)
		m.resident = kib / 1024
	}
	response, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		return m
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	for line := range bytes.Lines(body) {
		if value, ok := bytes.CutPrefix(line, []byte("go_memstats_next_gc_bytes ")); ok {
			next, _ := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
			m.live = next / 2 / (1 << 20) // the next collection is due when it has doubled
		}
	}
	return m
}

// weigh tells what users and groups cost.
func (b *bench) weigh(context.Context) error {
	now := b.world.front.memory(b.world.metrics)
	each := func(before, after float64) float64 { return (after - before) * 1024 / float64(b.users) }
	b.report.fact("memory of quoin apiserver", "%.0f MiB resident, %.0f live; before there were users %.0f, %.0f: **%.1f KiB a user** (%.1f live), groups included",
		now.resident, now.live, b.unfilled.resident, b.unfilled.live, each(b.unfilled.resident, now.resident), each(b.unfilled.live, now.live))
	return nil
}
