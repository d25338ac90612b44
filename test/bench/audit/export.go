package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// exportFlags are the flags of the process that exports, a separate one so that its memory can be
// measured.
type exportFlags struct{ url, file string }

// exported is the result of that process; memory is in MiB.
type exported struct {
	Rows            int
	Seconds         float64
	Opened, Quarter float64 // resident after the database was opened, and peak at a quarter of the rows
	Peak            float64 // peak resident
}

// run exports and prints the result as JSON.
func (f exportFlags) run(ctx context.Context) (err error) {
	s, err := store.Open(ctx, f.url, nil, audit.Owner)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l := audit.NewLog(s, audit.Options{})
	defer l.Close()
	found := exported{Opened: memory().Resident}
	total := 0
	if err := s.Reader().QueryRowContext(ctx, "SELECT COUNT(*) FROM audit_event").Scan(&total); err != nil {
		return err
	}
	file, err := os.Create(f.file)
	if err != nil {
		return err
	}
	start := time.Now()
	events, err := l.Query(ctx, audit.Filter{Account: account})
	if err != nil {
		return err
	}
	watched := func(yield func(audit.Event, error) bool) {
		n := 0
		for e, err := range events {
			if n++; n == total/4 {
				found.Quarter = memory().Peak
			}
			if !yield(e, err) {
				return
			}
		}
	}
	if found.Rows, err = audit.WriteCSV(file, watched); err != nil {
		return err
	}
	found.Seconds = time.Since(start).Seconds()
	found.Peak = memory().Peak
	if err := file.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// memory returns the memory of this process, zero without /proc.
func memory() process.Memory {
	m, _ := process.MemoryOf(os.Getpid())
	return m
}

// compareExports alternates exports with \copy of the rows in PostgreSQL.
func (b *bench) compareExports(ctx context.Context) error {
	file := filepath.Join(b.folder, "export.csv")
	var ours, theirs measure.Times
	var last exported
	for range b.turns {
		command := exec.CommandContext(ctx, os.Args[0], "-export", b.URL, "-to", file)
		command.Stderr = os.Stderr
		output, err := command.Output()
		if err != nil {
			return err
		}
		if err := json.Unmarshal(output, &last); err != nil {
			return err
		}
		if last.Rows != b.events {
			return fmt.Errorf("%d rows were exported, want %d", last.Rows, b.events)
		}
		ours.Each = append(ours.Each, time.Duration(last.Seconds*float64(time.Second)))
		took, err := b.psql.copyOut(ctx, b.events)
		if err != nil {
			return err
		}
		theirs.Each = append(theirs.Each, took)
	}
	rate := func(t measure.Times) float64 { return float64(b.events) * 1000 / t.Milliseconds(0.5) }
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	b.report.Fact(b.Name+": export as CSV", "**%.0f rows/s**, %.0f MiB/s; psql \\copy from PostgreSQL %.0f rows/s; median of %d rounds",
		rate(ours), float64(info.Size())/(1<<20)*1000/ours.Milliseconds(0.5), rate(theirs), b.turns)
	b.report.Fact(b.Name+": memory of the export", "resident at most %.0f MiB, %.0f at a quarter of the rows, %.0f before", last.Peak, last.Quarter, last.Opened)
	b.report.AtLeast(b.Name+": export, rows a second", rate(ours), 200_000, "")
	b.report.Fact(b.Name+": export ÷ psql \\copy", "%.2f", rate(ours)/rate(theirs))
	b.report.AtMost(b.Name+": memory at the end of the export ÷ at a quarter", last.Peak/last.Quarter, 1.2, "")
	return nil
}

// psql is PostgreSQL's client.
type psql struct{ program, url, file string }

func (p *psql) run(ctx context.Context, statement string) error {
	output, err := exec.CommandContext(ctx, p.program, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--command", statement, p.url).CombinedOutput()
	if err != nil {
		return fmt.Errorf("psql: %w: %s", err, output)
	}
	return nil
}

// analyze updates the statistics, as autovacuum does later.
func (p *psql) analyze(ctx context.Context) error { return p.run(ctx, "VACUUM ANALYZE audit_event") }

// copyOut writes the rows of an export, in the same order.
func (p *psql) copyOut(ctx context.Context, rows int) (time.Duration, error) {
	start := time.Now()
	err := p.run(ctx, `\copy (SELECT to_timestamp(time / 1000000.0), name, actor_email, actor_kind || ':' || actor_id, deployment_id, deployment_name, `+
		`object_kind || '/' || object_namespace || '/' || object_name, outcome, source, ip, request_id, changes `+
		`FROM audit_event WHERE account = '`+account+`' ORDER BY time, id LIMIT `+strconv.Itoa(rows)+`) TO '`+p.file+`' WITH (FORMAT csv, HEADER)`)
	return time.Since(start), err
}
