// Command neighbour attacks Quoin from the outside, as a hostile tenant or an unauthenticated client would, while another
// tenant works: `quoin gateway`, `quoin apiserver` and `quoin controller` are processes with their default limits, on a real
// kube-apiserver. The other tenant's p99 under an attack must not exceed twice that without one, in the same run.
//
// Each round of an attack measures the other tenant's requests three times: without an attack; beside a program that only
// uses processor time; and under the attack. The attacker and its pods are processes of their own with the scheduling policy
// SCHED_IDLE: they use the processor time that the others leave, so that the ratio measures what Quoin does with the requests, and not
// how the scheduler of a small machine divides the processors between an attacker and its victim. An attacker in production
// has machines of its own.
//
// With -attacker-processors, the attacker has processors of its own instead, and is as fast as they are. All else has to run on
// the others: with two processors, that shows what an attack costs a server with one, and is hard to withstand.
//
//	make bench-neighbour BENCH_FLAGS=-docs                             # also writes the results into the documentation
//	go run ./test/bench/neighbour -only 'SQL|hooks' -rounds 1 -time 2s   # KUBEBUILDER_ASSETS is set
//	taskset -c 0 go run ./test/bench/neighbour -attacker-processors 1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	rounds, users int
	time          time.Duration
	only, quoin   string
	// processors are those of the attacker, as taskset takes them; empty for those that the others leave.
	processors string
	docs       *bool
	selected   *regexp.Regexp
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == podsCommand {
		servePods()
		return
	}
	if len(os.Args) == 3 && os.Args[1] == attackCommand {
		process.Main(attackCommand, func(ctx context.Context) error { return carryOut(ctx, os.Args[2]) })
		return
	}
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.rounds, "rounds", 5, "`number` of rounds of each attack")
	flag.DurationVar(&o.time, "time", 4*time.Second, "`duration` of a measurement; a round has three")
	flag.IntVar(&o.users, "users", 3000, "`number` of users in the directory of the attacker")
	flag.StringVar(&o.only, "only", "", "`pattern` of the names of the attacks; all if empty")
	flag.StringVar(&o.processors, "attacker-processors", "", "`list` of processors of the attacker, such as 2,3; run the bench with taskset on others")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("neighbour", func(ctx context.Context) error {
		if err := o.check(); err != nil {
			return err
		}
		return controlplane.WithAPIServer("neighbour", func(server *controlplane.APIServer) error { return run(ctx, o, server) })
	})
}

// attackerCommand is the command that runs a program of the attacker.
func (o *options) attackerCommand() []string {
	if o.processors != "" {
		return []string{"taskset", "--cpu-list", o.processors}
	}
	return []string{"chrt", "--idle", "0"}
}

func (o *options) check() (err error) {
	if o.time < time.Second {
		return errors.New("-time must be 1s or more")
	}
	if o.selected, err = regexp.Compile(o.only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.processors != "" && *o.docs {
		return errors.New("-attacker-processors is not for -docs: the documentation has the other kind of measurement")
	}
	return process.CheckFlags(map[string]int{"rounds": 1, "users": 1})
}

func run(ctx context.Context, o options, server *controlplane.APIServer) error {
	results, err := measure.OpenResults("neighbour", *o.docs)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o, server)
	if err != nil {
		return err
	}
	r := &report{}
	if err := w.runAttacks(ctx, o, r); err != nil {
		return err
	}
	attacker := "have the scheduling policy SCHED_IDLE"
	if o.processors != "" {
		attacker = "run on processors " + o.processors
	}
	setup := fmt.Sprintf("%d rounds, %s a measurement; the attacker and its pods %s; etcd, kube-apiserver, Quoin, pods, attacker and bench share the machine",
		o.rounds, o.time, attacker)
	return results.Publish(setup, r.print)
}
