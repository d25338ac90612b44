package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

const (
	// startTime is how long an attack lasts before it is measured: until the bursts that the limits allow are used.
	startTime = 6 * time.Second
)

// runAttacks measures all selected attacks, one after the other.
func (w *world) runAttacks(ctx context.Context, o options, r *report) error {
	victims := w.victims()
	for _, a := range attacks {
		if !o.selected.MatchString(a.name) {
			continue
		}
		measure.Progress("%s", a.name)
		v := victims[a.victim]
		if err := w.warmUp(ctx, v); err != nil {
			return fmt.Errorf("%s, without an attack: %w", v.name, err)
		}
		x := &row{attack: a}
		for range o.rounds {
			if err := w.runRound(ctx, o, x, v); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
		}
		r.add(x)
	}
	return ctx.Err()
}

// warmUp makes requests until the work succeeds.
func (w *world) warmUp(ctx context.Context, v *victim) error {
	w.server.Settle(ctx)
	if err := process.Await(ctx, v.name, 20, 100*time.Millisecond, func() error { return v.once(ctx) }); err != nil {
		return err
	}
	return v.measure(ctx, time.Second).err
}

// runRound measures the victim's work without an attack, beside a program that uses processor time, and under the attack.
func (w *world) runRound(ctx context.Context, o options, x *row, v *victim) error {
	quiet := v.measure(ctx, o.time)
	if quiet.err != nil {
		return fmt.Errorf("%s, without an attack: %w", v.name, quiet.err)
	}
	beside, _, err := w.under(ctx, o, idleName, v)
	if err != nil {
		return err
	}
	attacked, use, err := w.under(ctx, o, x.attack.name, v)
	if err != nil {
		return err
	}
	x.add(quiet, beside, attacked, use)
	return w.cleanUp(ctx)
}

// use is what an attacker did, and the processor time that it used, in processors.
type use struct {
	outcomes   map[string]int
	processors float64
}

// under measures the victim's work while an attacker runs.
func (w *world) under(ctx context.Context, o options, attack string, v *victim) (result, use, error) {
	text, err := w.orders(attack)
	if err != nil {
		return result{}, use{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return result{}, use{}, err
	}
	file := filepath.Join(w.server.Dir, "orders.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return result{}, use{}, err
	}
	if err := os.RemoveAll(w.resultFile()); err != nil {
		return result{}, use{}, err
	}
	run := slices.Concat(w.attackerCommand, []string{self, attackCommand, file})
	attacker, err := process.Start(ctx, "attacker", w.server.Dir, run[0], run[1:]...)
	if err != nil {
		return result{}, use{}, err
	}
	defer attacker.Stop()
	process.Pause(ctx, startTime)
	before, start := process.UsageOf(attacker.ID()), time.Now()
	measured := v.measure(ctx, o.time)
	used := use{processors: (process.UsageOf(attacker.ID()).Processor - before.Processor) / time.Since(start).Seconds()}
	attacker.Stop()
	if text, err = os.ReadFile(w.resultFile()); err != nil {
		return measured, used, fmt.Errorf("the attacker failed: %w: %s", err, attacker.LogTail())
	}
	return measured, used, json.Unmarshal(text, &used.outcomes)
}

// cleanUp removes the objects that an attacker created, and waits until the processes are idle.
func (w *world) cleanUp(ctx context.Context) error {
	list := &v1alpha1.DeploymentList{}
	if err := w.server.List(ctx, list, client.InNamespace(attackerName)); err != nil {
		return err
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.Name != deployment {
			if err := w.server.Delete(ctx, d); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	w.server.Settle(ctx)
	return nil
}
