package soak_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

const (
	// restartDelay is the time after which a process that has ended is started again.
	restartDelay = time.Second
	// sampleInterval is the time between two samples of the usage of a process.
	sampleInterval = 2 * time.Second
)

// Margins of growth: how much the usage of a process may be more in the last third of its life than in the third before.
// Each object that was created in between adds to the memory, because caches have it.
const (
	moreGoroutines  = 25
	moreMemory      = 8 << 20
	memoryPerObject = 8 << 10
)

// usage is a sample of what a process uses. The memory is that of live objects, in bytes.
type usage struct{ goroutines, memory, objects float64 }

// process is a process of Quoin that is started again when it ends, as the kubelet does.
type process struct {
	name, metrics, log string
	args               []string

	mu      sync.Mutex
	running *os.Process // nil while it does not run
	// restarts counts the starts after the first, samples are those since the last start, first is the very first.
	restarts int
	samples  []usage
	first    *usage
}

// run starts the process again and again until the context ends.
func (p *process) run(ctx context.Context) {
	for start := 0; ctx.Err() == nil; start++ {
		if err := p.once(ctx, start > 0); err != nil {
			_ = os.WriteFile(p.log, []byte(err.Error()), 0o600) // a start that fails shows as a process without metrics
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

// once runs the process until it ends, or the context does.
func (p *process) once(ctx context.Context, restart bool) error {
	logs, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()
	command := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	command.Stdout, command.Stderr = logs, logs
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	p.mu.Lock()
	p.running, p.samples = command.Process, nil
	if restart {
		p.restarts++
	}
	p.mu.Unlock()
	_ = command.Wait() // its log has the reason
	p.mu.Lock()
	p.running = nil
	p.mu.Unlock()
	return nil
}

// kill kills the process, which is started again.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return errors.New(p.name + " does not run")
	}
	return p.running.Kill()
}

// count returns the number of restarts.
func (p *process) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.restarts
}

// sample stores the usage of the process. Objects is the number of objects that clients have created.
func (p *process) sample(text string, objects float64) {
	// Twice the live heap is the limit at which the garbage collector runs.
	u := usage{measure.Metric(text, "go_goroutines"), measure.Metric(text, "go_memstats_next_gc_bytes") / 2, objects}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples = append(p.samples, u)
	if p.first == nil {
		p.first = &u
	}
}

// reset forgets restarts and samples.
func (p *process) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restarts, p.samples, p.first = 0, nil, nil
}

// grows returns an error if the usage of a process keeps growing: if the median of the last third of its samples is more than
// that of the third before, by more than the margins. It needs six samples.
func grows(samples []usage) error {
	third := len(samples) / 3
	if third < 2 {
		return fmt.Errorf("only %d samples since the last start, want 6 or more", len(samples))
	}
	before, last := median(samples[third:2*third]), median(samples[2*third:])
	if last.goroutines > before.goroutines+moreGoroutines {
		return fmt.Errorf("%.0f goroutines after %.0f: more than %d more", last.goroutines, before.goroutines, moreGoroutines)
	}
	allowed := moreMemory + memoryPerObject*(last.objects-before.objects)
	if last.memory > before.memory+allowed {
		return fmt.Errorf("%.1f MiB of memory after %.1f MiB: more than %.1f MiB more", mebibytes(last.memory), mebibytes(before.memory), mebibytes(allowed))
	}
	return nil
}

// median returns the medians of the fields.
func median(samples []usage) usage {
	middle := func(of func(usage) float64) float64 {
		var values []float64
		for _, s := range samples {
			values = append(values, of(s))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return usage{
		middle(func(u usage) float64 { return u.goroutines }),
		middle(func(u usage) float64 { return u.memory }),
		middle(func(u usage) float64 { return u.objects }),
	}
}

func mebibytes(n float64) float64 { return n / (1 << 20) }

// scrape returns the metrics of a process.
func (w *world) scrape(p *process) (string, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // self-signed
	defer transport.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodGet, "https://"+p.metrics+"/metrics", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+w.scraper)
	answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return string(text), err
}

// sampleAll takes samples of all processes while the world is calm, until the context ends. During a fault requests wait.
func (w *world) sampleAll(ctx context.Context, calm *atomic.Bool, writers []*writer) {
	for ; ctx.Err() == nil; time.Sleep(sampleInterval) {
		for _, p := range w.processes {
			if !calm.Load() {
				break
			}
			objects := 0
			for _, r := range writers {
				n, _ := r.counts()
				objects += n
			}
			if text, err := w.scrape(p); err == nil && calm.Load() {
				p.sample(text, float64(objects))
			}
		}
	}
}
