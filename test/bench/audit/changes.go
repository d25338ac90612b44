package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// storeChanges measures Begin and End.
func (b *bench) storeChanges(ctx context.Context) error {
	return b.with(ctx, func(l *audit.Log) error {
		change := func(ctx context.Context, i int) (time.Duration, error) {
			start := time.Now()
			e := b.event(i, start)
			a, err := l.Begin(ctx, audit.Event{Account: account, Name: e.Name, Source: e.Source, Actor: e.Actor, Deployment: e.Deployment, IP: e.IP, RequestID: e.RequestID})
			if err == nil {
				err = a.End(ctx, audit.Succeeded, audit.Details{Reason: "200", Object: e.Object, Changes: e.Changes})
			}
			return time.Since(start), err
		}
		sequential, err := measure.Spread(ctx, b.alone, 1, change)
		if err != nil {
			return err
		}
		b.report.Add(b.Name+": a change alone", sequential, "two commits")
		many, err := measure.Spread(ctx, b.changes, b.callers, change)
		if err != nil {
			return err
		}
		b.report.Add(fmt.Sprintf("%s: a change, %d callers", b.Name, b.callers), many, "%.1f × as many a second as alone", many.PerSecond()/sequential.PerSecond())
		return nil
	})
}

// measureDisk measures a write and fsync, the minimum of a commit.
func measureDisk(folder string, r *measure.Report) error {
	file, err := os.Create(filepath.Join(folder, "disk"))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	page := make([]byte, 8<<10)
	m, err := measure.Spread(context.Background(), 300, 1, func(context.Context, int) (time.Duration, error) {
		start := time.Now()
		if _, err := file.Write(page); err != nil {
			return 0, err
		}
		err := file.Sync()
		return time.Since(start), err
	})
	r.Add("the disk: write of 8 KiB and fsync", m, "")
	return err
}

// searchEveryEvent is the search with the most results.
const searchEveryEvent = "search for a word of every event, first page"

// search measures full-text searches and the number of events that each returns.
func (b *bench) search(ctx context.Context) error {
	return b.with(ctx, func(l *audit.Log) error {
		for _, query := range []struct {
			name string
			of   func(n int) audit.Filter
			bar  bool
		}{
			{"search for a request id", func(n int) audit.Filter { return audit.Filter{Search: requestID(n)} }, true},
			{"search for two words, one rare", func(n int) audit.Filter { return audit.Filter{Search: "analytics " + requestID(n)} }, true},
			{"search for the beginning of a word", func(n int) audit.Filter { return audit.Filter{Search: requestID(n)[:10]} }, true},
			{"search without a match", func(n int) audit.Filter { return audit.Filter{Search: fmt.Sprintf("missing%d", n)} }, true},
			{"search for a user, first page", func(n int) audit.Filter { return audit.Filter{Search: fmt.Sprintf("user%d@example.com", 100+n%900)} }, false},
			{"filter by userEmail, first page", func(n int) audit.Filter { return audit.Filter{UserEmail: fmt.Sprintf("user%d@example.com", 100+n%900)} }, false},
			{searchEveryEvent, func(int) audit.Filter { return audit.Filter{Search: "analytics"} }, false},
		} {
			rows := 0
			times := b.searches
			if !query.bar {
				times = max(times/10, 1)
			}
			m, err := measure.Spread(ctx, times, 1, func(ctx context.Context, i int) (time.Duration, error) {
				f := query.of(i * 7919 % b.events)
				f.Account = account
				start := time.Now()
				events, err := l.Query(ctx, f)
				if err != nil {
					return 0, err
				}
				took := time.Since(start)
				for _, err := range events {
					if err != nil {
						return 0, err
					}
					if rows++; !query.bar {
						break
					}
				}
				if query.bar {
					took = time.Since(start)
				}
				return took, nil
			})
			if err != nil {
				return err
			}
			note := fmt.Sprintf("%.1f events each", float64(rows)/float64(times))
			if !query.bar {
				note = "until the first event"
			}
			b.report.Add(b.Name+": "+query.name, m, "%s", note)
			if query.name == searchEveryEvent {
				b.report.AtMost(b.Name+": "+query.name+", p99", m.Milliseconds(0.99), 200, " ms")
			}
		}
		return nil
	})
}
