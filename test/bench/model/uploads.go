package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// maxRatio is the bar for the time of an upload, divided by that of a push to `git http-backend`.
const maxRatio = 1.5

// way is a way in which a model reaches a server: an empty repository for each run.
type way struct {
	name string
	run  func(ctx context.Context) (time.Duration, error)
	// took are the times of the runs.
	took []time.Duration
	// each are the times of the requests with files.
	each measure.Times
}

// compareUploads pushes and uploads the same model in each way, alternating.
func (b *bench) compareUploads(ctx context.Context) error {
	push := &way{name: "git push to git http-backend", run: b.pushToPeer}
	ways := []*way{push, {name: "git push to Quoin", run: b.pushToQuoin}}
	for _, kind := range []struct {
		name    string
		paths   func(id string) protocol
		callers int
	}{
		{"upload, newer protocol, one file after the other", newer, 1},
		{"upload, legacy protocol, one file after the other", legacy, 1},
		{fmt.Sprintf("upload, newer protocol, %d files at a time", b.callers), newer, b.callers},
	} {
		w := &way{name: kind.name}
		w.run = func(ctx context.Context) (time.Duration, error) {
			each, took, err := b.uploadOnce(ctx, kind.paths, kind.callers)
			w.each = w.each.With(each)
			return took, err
		}
		ways = append(ways, w)
	}
	for pair := range b.pairs {
		for _, w := range ways {
			took, err := w.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.took = append(w.took, took)
			measure.Progress("  pair %d: %s: %s", pair+1, w.name, took.Round(time.Millisecond))
		}
	}
	for _, w := range ways {
		b.reportWay(w, push)
	}
	return nil
}

// reportWay adds the rows and the bar of a way.
func (b *bench) reportWay(w, push *way) {
	ratios := make([]float64, len(w.took))
	for i := range w.took {
		ratios[i] = w.took[i].Seconds() / push.took[i].Seconds()
	}
	b.report.Add(b.name+": "+w.name, timesOf(w.took), "%d files", b.files)
	if len(w.each.Each) > 0 {
		b.report.Add(b.name+": of which one file", w.each, "")
	}
	if w != push {
		what := fmt.Sprintf("%s: %s ÷ git push to git http-backend, median of %d pairs (%.2f to %.2f)", b.name, w.name, len(ratios), slices.Min(ratios), slices.Max(ratios))
		b.report.AtMost(what, measure.Median(ratios), maxRatio, "")
	}
}

// timesOf returns times that were taken one after the other.
func timesOf(each []time.Duration) measure.Times {
	t := measure.Times{Each: each}
	for _, took := range each {
		t.Took += took
	}
	return t
}

func (b *bench) pushToPeer(ctx context.Context) (time.Duration, error) {
	to, err := b.peer.newRepository(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = b.uploaded.push(ctx, to)
	return time.Since(begin), err
}

func (b *bench) pushToQuoin(ctx context.Context) (time.Duration, error) {
	id, err := b.newDeployment(ctx)
	if err != nil {
		return 0, err
	}
	return b.push(ctx, b.uploaded, id)
}

// push pushes a model to a deployment.
func (b *bench) push(ctx context.Context, p *project, id string) (time.Duration, error) {
	to, options, err := b.repository(id)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = p.push(ctx, to, options...)
	return time.Since(begin), err
}

// repository returns the URL of the repository of a deployment, with the options of git that it needs: the host is not
// in DNS, and the key is sent with the first request.
func (b *bench) repository(id string) (address string, options []string, err error) {
	server, err := url.Parse(b.quoin.URL)
	if err != nil {
		return "", nil, err
	}
	ip, port, err := net.SplitHostPort(server.Host)
	if err != nil {
		return "", nil, err
	}
	options = []string{"-c", fmt.Sprintf("http.curloptResolve=%s:%s:%s", host, port, ip), "-c", "http.extraHeader=Authorization: Bearer " + b.token}
	return fmt.Sprintf("https://%s:%s/git/%s.git", host, port, id), options, nil
}

// client returns a client with the API key.
func (b *bench) client() *client {
	return &client{http: b.quoin.HTTP, base: b.quoin.URL, authorization: "Bearer " + b.token}
}

// uploadOnce uploads the model to a new deployment: with a deploy token in the legacy protocol.
func (b *bench) uploadOnce(ctx context.Context, paths func(id string) protocol, callers int) (measure.Times, time.Duration, error) {
	id, err := b.newDeployment(ctx)
	if err != nil {
		return measure.Times{}, 0, err
	}
	c := b.client()
	if p := paths(id); p == legacy(id) {
		answer, err := c.post(ctx, "/build/api/v1/deployments/"+id+"/deploy-token", struct{}{})
		if err != nil {
			return measure.Times{}, 0, err
		}
		var created struct{ Token string }
		if err := json.Unmarshal(answer, &created); err != nil {
			return measure.Times{}, 0, err
		}
		c.authorization = created.Token // without a scheme
	}
	return c.upload(ctx, paths(id), b.uploaded.files, callers)
}
