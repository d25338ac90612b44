// Command chat measures streams of chats: many at a time from a scripted model that sends text at a fixed rate, through
// `quoin apiserver` and, in the same run, through a bare proxy of newline-delimited JSON that stores nothing:
//
//   - added latency: from the time at which the model sends a piece of text until the client has it
//   - pieces of text a second, while all streams are in progress
//   - memory of `quoin apiserver` for each stream, without the pages of the program, which are read when code runs first
//   - the time until the first piece, when all streams begin at once
//
// The targets share the machine with the model and with this program, which reads the streams. The content store is SQLite.
//
//	make bench-chat BENCH_FLAGS=-docs                     # also writes the results into the documentation
//	go run ./test/bench/chat -streams 50 -time 5s        # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// options are the flags.
type options struct {
	streams, rate, rounds int
	time                  time.Duration
	quoin                 string
	docs                  *bool
}

func main() {
	if len(os.Args) > 2 && serveAs(os.Args[1], os.Args[2:]) {
		return
	}
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.streams, "streams", 500, "`number` of concurrent streams")
	flag.IntVar(&o.rate, "rate", 50, "`pieces` of text a second of each stream")
	flag.IntVar(&o.rounds, "rounds", 3, "`number` of rounds, each with a measurement of both targets")
	flag.DurationVar(&o.time, "time", 30*time.Second, "`duration` of the streams of a measurement")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("chat", func(ctx context.Context) error {
		if err := o.check(); err != nil {
			return err
		}
		return controlplane.WithAPIServer("chat", func(server *controlplane.APIServer) error { return run(ctx, o, server) })
	})
}

func (o options) check() error {
	if o.time < time.Second {
		return errors.New("-time must be 1s or more")
	}
	return process.CheckFlags(map[string]int{"streams": 1, "rate": 1, "rounds": 1})
}

func run(ctx context.Context, o options, server *controlplane.APIServer) error {
	results, err := measure.OpenResults("chat", *o.docs)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o, server)
	if err != nil {
		return err
	}
	r := &measure.Report{}
	if err := w.compare(ctx, o, r); err != nil {
		return err
	}
	setup := fmt.Sprintf("%d streams of %d pieces a second each, for %s, %d rounds; content store: SQLite", o.streams, o.rate, o.time, o.rounds)
	return results.Publish(setup, func(out io.Writer) {
		r.PrintBars(out)
		r.PrintRows(out, "Pieces")
	})
}

// compare measures both targets, round by round.
func (w *world) compare(ctx context.Context, o options, r *measure.Report) error {
	var quoin, bare, first, firstBare measure.Times
	var ratios, memories, p50s, p99s, processors, busy []float64
	idle, err := process.MemoryOf(w.apiserver.ID())
	if err != nil {
		return err
	}
	for round := range o.rounds {
		b, err := w.bare.measure(ctx, o, 0)
		if err != nil {
			return fmt.Errorf("through the bare proxy: %w", err)
		}
		q, err := w.chat.measure(ctx, o, w.apiserver.ID())
		if err != nil {
			return fmt.Errorf("through quoin apiserver: %w", err)
		}
		ratios = append(ratios, q.pieces.PerSecond()/b.pieces.PerSecond())
		memories = append(memories, max(q.memory-idle.Anonymous, 0)*1024/float64(o.streams))
		processors, busy = append(processors, float64(q.processor.Microseconds())), append(busy, q.busy)
		added := func(percentile float64) float64 {
			return q.pieces.Milliseconds(percentile) - b.pieces.Milliseconds(percentile)
		}
		p50s, p99s = append(p50s, added(0.50)), append(p99s, added(0.99))
		quoin, bare, first, firstBare = quoin.With(q.pieces), bare.With(b.pieces), first.With(q.first), firstBare.With(b.first)
		measure.Progress("  round %d: ratio %.2f, p50 %.1f ms, p99 %.1f ms, bare p99 %.1f ms, %.0f KiB a stream, processors %.0f %% busy", round+1, ratios[round],
			q.pieces.Milliseconds(0.50), q.pieces.Milliseconds(0.99), b.pieces.Milliseconds(0.99), memories[round], 100*q.busy)
	}
	r.Add("a piece of text through quoin apiserver", quoin, "%d streams; %.0f µs of a processor each; all processors are %.0f %% busy",
		o.streams, measure.Median(processors), 100*measure.Median(busy))
	r.Add("the same through a bare proxy", bare, "%d streams", o.streams)
	r.Add("from the request to the first piece, through quoin apiserver", first, "%d at once", o.streams)
	r.Add("the same through a bare proxy, to the first piece", firstBare, "%d at once", o.streams)
	medians := fmt.Sprintf("median of %d rounds", o.rounds)
	r.AtMost("p99 of the latency of a piece, less that of the bare proxy, "+medians, measure.Median(p99s), 20, " ms")
	r.AtMost("p50 of the latency of a piece, less that of the bare proxy, "+medians, measure.Median(p50s), 20, " ms")
	r.AtMost("memory a stream, "+medians, measure.Median(memories), 256, " KiB")
	r.AtLeast("pieces a second ÷ those through the bare proxy, "+medians, measure.Median(ratios), 0.7, "")
	return nil
}
