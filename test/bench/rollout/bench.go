package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// bench runs the measurements in order.
type bench struct {
	options
	cluster    *cluster
	controller *controller
	fleet      *fleet
	meter      *meter
	result     result
}

func newBench(ctx context.Context, c *cluster, o options) (*bench, error) {
	f, err := newFleet(ctx, c, o)
	if err != nil {
		return nil, err
	}
	ctl, err := newController(c, o)
	if err != nil {
		return nil, err
	}
	m := &meter{cluster: c, controller: ctl}
	return &bench{
		options: o, cluster: c, controller: ctl, fleet: f, meter: m,
		result: result{Deployments: o.deployments, Workers: o.workers, Limit: o.limit},
	}, nil
}

func (b *bench) run(ctx context.Context) error {
	log.SetLogger(klog.Background()) // used by the informers
	if err := b.meter.countWrites(ctx); err != nil {
		return err
	}
	if err := b.install(ctx); err != nil {
		return err
	}
	for i := range b.pairs {
		p := pair{}
		if i > 0 {
			if err := b.repair(ctx, version(i)); err != nil {
				return err
			}
		}
		if err := b.rollOut(ctx, version(i+1), &p); err != nil {
			return err
		}
		if i == 0 {
			if err := b.steadyState(ctx); err != nil {
				return err
			}
		}
		if err := b.patchDirectly(ctx, fmt.Sprintf("direct-%d", i+1), &p); err != nil {
			return err
		}
		progress("quoin %.1f s, directly %.1f s: ratio %.2f", p.Quoin, p.Direct, p.ratio())
		b.result.Pairs = append(b.result.Pairs, p)
	}
	return nil
}

// version returns the version of the deployments after i rollouts.
func version(i int) string { return fmt.Sprintf("1.2.%d", 3+i) }

// install creates the deployments and waits until they are Ready.
func (b *bench) install(ctx context.Context) error {
	progress("installing %d deployments", b.deployments)
	if err := b.cluster.push(ctx, version(0)); err != nil {
		return err
	}
	if err := b.controller.start(ctx); err != nil {
		return err
	}
	before, err := b.meter.read(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.fleet.create(ctx); err != nil {
		return err
	}
	end, err := b.fleet.await(ctx, "Ready", b.fleet.runs(version(0)))
	if err != nil {
		return err
	}
	b.result.Install = end.Sub(start).Seconds()
	used, err := b.used(ctx, before)
	if err != nil {
		return err
	}
	b.result.InstallWrites = perDeployment(used.writes, b.deployments)
	b.result.InstallMemory, err = b.controller.memory(ctx)
	return err
}

// rollOut pushes a new tag and waits until every deployment runs it.
func (b *bench) rollOut(ctx context.Context, to string, p *pair) error {
	b.meter.awaitQuiet(ctx)
	progress("Quoin rolls %s out", to)
	before, err := b.meter.read(ctx)
	if err != nil {
		return err
	}
	if err := b.cluster.push(ctx, to); err != nil {
		return err
	}
	pushed := time.Now()
	end, err := b.fleet.await(ctx, "on "+to, b.fleet.runs(to))
	if err != nil {
		return err
	}
	p.Quoin, p.FromPush = end.Sub(b.fleet.firstOffered(to)).Seconds(), end.Sub(pushed).Seconds()
	used, err := b.used(ctx, before)
	if err != nil {
		return err
	}
	p.QuoinCPU = used.cpu
	p.Writes, p.Reads = perDeployment(used.writes, b.deployments), perUnit(used.reads, b.deployments)
	p.Reconciles = perDeployment(used.reconciles, b.deployments)
	p.Memory, err = b.controller.memory(ctx)
	return err
}

// patchDirectly stops Quoin and patches the same workloads to another image.
func (b *bench) patchDirectly(ctx context.Context, to string, p *pair) error {
	b.controller.stop()
	b.meter.awaitQuiet(ctx)
	progress("patching directly to %s", to)
	before, err := b.meter.read(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	image := b.cluster.image(to)
	if err := b.fleet.patch(ctx, image); err != nil {
		return err
	}
	end, err := b.fleet.await(ctx, "on "+to, b.fleet.hasImage(image))
	if err != nil {
		return err
	}
	p.Direct = end.Sub(start).Seconds()
	used, err := b.used(ctx, before)
	p.DirectCPU = used.cpu
	return err
}

// repair starts Quoin, which reverts the direct patches.
func (b *bench) repair(ctx context.Context, to string) error {
	progress("Quoin restores %s", to)
	if err := b.controller.start(ctx); err != nil {
		return err
	}
	_, err := b.fleet.await(ctx, "on "+to, b.fleet.runs(to))
	return err
}

// steadyState counts the writes while nothing changes.
func (b *bench) steadyState(ctx context.Context) error {
	b.meter.awaitQuiet(ctx)
	progress("steady state for %s", b.rest)
	before, err := b.meter.read(ctx)
	if err != nil {
		return err
	}
	process.Pause(ctx, b.rest)
	after, err := b.meter.read(ctx)
	if err != nil {
		return err
	}
	used := after.since(before)
	b.result.RestWrites = float64(measure.Total(used.writes)) / b.rest.Minutes()
	b.result.RestCPU = used.cpu[controllerName] / b.rest.Minutes()
	b.result.RestMemory, err = b.controller.memory(ctx)
	return err
}

// eventDelay is how long after the end the counters are read: events are written asynchronously.
const eventDelay = 3 * time.Second

// used returns the usage since an earlier reading. Processor time ends now; writes include the events that follow.
func (b *bench) used(ctx context.Context, before reading) (reading, error) {
	cpu := b.meter.processorTime()
	process.Pause(ctx, eventDelay)
	after, err := b.meter.read(ctx)
	after.cpu = cpu
	return after.since(before), err
}

// progress writes a line of progress to stderr.
func progress(format string, args ...any) {
	fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05"), strings.TrimSpace(fmt.Sprintf(format, args...)))
}
