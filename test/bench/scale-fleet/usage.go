package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// controllers are those whose queues are reported.
var controllers = []string{"deployment", "environment"}

// reading is the usage until now, or between two readings.
type reading struct {
	took time.Duration
	// requests are those of the controller, by verb and resource, such as "PATCH deployments/status".
	requests map[string]float64
	// reconciles and queues are by controller.
	reconciles map[string]float64
	queues     map[string]measure.Buckets
	// cpu is processor time in seconds, by program.
	cpu map[string]float64
}

// read reads the metrics of kube-apiserver and of the controller.
func (w *world) read(ctx context.Context) (reading, error) {
	r := reading{requests: map[string]float64{}, reconciles: map[string]float64{}, queues: map[string]measure.Buckets{}, cpu: w.server.ProcessorTime()}
	text, err := w.kubernetesMetrics(ctx)
	if err != nil {
		return r, err
	}
	for labels, count := range measure.Samples(text, "apiserver_request_total") {
		if call := callOf(labels); call != "" {
			r.requests[call] += count
		}
	}
	if w.controller == nil {
		return r, nil
	}
	own, err := w.controller.Metrics(ctx)
	if err != nil {
		return r, err
	}
	for labels, count := range measure.Samples(own, "controller_runtime_reconcile_total") {
		r.reconciles[labels.Value("controller")] += count
	}
	for _, name := range controllers {
		r.queues[name] = measure.BucketsOf(own, "workqueue_queue_duration_seconds", func(l measure.Labels) bool { return l.Value("name") == name })
	}
	return r, nil
}

func (w *world) kubernetesMetrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+"/metrics", nil)
	if err != nil {
		return "", err
	}
	return measure.Text(w.server.HTTP, request)
}

// callOf returns the verb and the resource of requests, or "" for those that are not the controller's: those of the bench in
// place of Kubernetes, and reviews of tokens for the metrics.
func callOf(l measure.Labels) string {
	verb, resource, group := l.Value("verb"), l.Value("resource"), l.Value("group")
	if sub := l.Value("subresource"); sub != "" {
		resource += "/" + sub
	}
	call := verb + " " + resource
	switch {
	case resource == "" || resource == "leases" || strings.HasPrefix(group, "auth") || strings.HasPrefix(group, "rbac"):
		return ""
	case group == "apps":
		call += ".apps"
	}
	if slices.Contains([]string{"POST deployments", "PUT deployments/status.apps", "PUT releasechannels", "GET releasechannels", "POST endpointslices",
		"POST serviceaccounts", "POST serviceaccounts/token", "POST ipaddresses"}, call) {
		return ""
	}
	return call
}

// since returns the usage between two readings.
func (r reading) since(before reading) reading {
	used := reading{
		requests: increase(before.requests, r.requests), reconciles: increase(before.reconciles, r.reconciles), cpu: increase(before.cpu, r.cpu),
		queues: map[string]measure.Buckets{},
	}
	for name, b := range r.queues {
		used.queues[name] = b.Since(before.queues[name])
	}
	return used
}

func increase(from, to map[string]float64) map[string]float64 {
	more := map[string]float64{}
	for name, count := range to {
		if n := count - from[name]; n > 0 {
			more[name] = n
		}
	}
	return more
}

// writes returns the requests that change objects.
func (r reading) writes() map[string]float64 {
	all := map[string]float64{}
	for call, n := range r.requests {
		if verb, _, _ := strings.Cut(call, " "); verb != "GET" && verb != "LIST" && verb != "WATCH" && verb != "WATCHLIST" {
			all[call] = n
		}
	}
	return all
}

// writesOfDeployments returns the number of writes without those of the release channel, which do not grow with the deployments.
func (r reading) writesOfDeployments() float64 {
	all := r.writes()
	return measure.Total(all) - all["PATCH releasechannels/status"]
}

// during returns the usage while work is done, with that of events that are written afterwards.
func (w *world) during(ctx context.Context, work func() error) (reading, error) {
	before, err := w.read(ctx)
	if err != nil {
		return reading{}, err
	}
	began := time.Now()
	if err := work(); err != nil {
		return reading{}, err
	}
	took := time.Since(began)
	w.server.Settle(ctx)
	after, err := w.read(ctx)
	used := after.since(before)
	used.took = took
	return used, err
}

// awaitSteady waits until the controller has reconciled all deployments and has nothing to do, and returns since when.
func (w *world) awaitSteady(ctx context.Context) (time.Time, error) {
	const (
		interval = 200 * time.Millisecond
		quiet    = 3 * time.Second
	)
	var reconciled float64
	changed := time.Now()
	for deadline := time.Now().Add(w.timeout); time.Now().Before(deadline); process.Pause(ctx, interval) {
		if ctx.Err() != nil {
			return changed, ctx.Err()
		}
		text, err := w.controller.Metrics(ctx)
		if err != nil {
			return changed, err
		}
		now, waiting := 0.0, 0.0
		enough := false
		for labels, count := range measure.Samples(text, "controller_runtime_reconcile_total") {
			now += count
			if labels.Value("controller") == "deployment" && count >= float64(w.n) {
				enough = true
			}
		}
		for _, depth := range measure.Samples(text, "workqueue_depth") {
			waiting += depth
		}
		if now != reconciled || waiting > 0 {
			reconciled, changed = now, time.Now()
		}
		if enough && time.Since(changed) >= quiet {
			return changed, nil
		}
	}
	return changed, errors.New("the controller is not steady")
}
