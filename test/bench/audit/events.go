package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

const (
	account     = "demo"
	users       = 1000
	deployments = 200
	// batch is the number of events per call when the log is filled.
	batch   = 200
	fillers = 4
)

// with opens the database and calls work.
func (b *bench) with(ctx context.Context, work func(*audit.Log) error) error {
	s, err := store.Open(ctx, b.URL, nil, audit.Owner)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	l := audit.NewLog(s, audit.Options{Timeout: time.Minute})
	defer l.Close()
	return work(l)
}

// event returns the nth event, of typical size. The events span 30 days.
func (b *bench) event(n int, from time.Time) audit.Event {
	step := 30 * 24 * time.Hour / time.Duration(b.events)
	deployment := n % deployments
	return audit.Event{
		Account: account, Time: from.Add(time.Duration(n) * step), Name: []string{audit.UpdatedDeploymentConfiguration, audit.UpdatedUserViaSCIM, audit.UpdatedBranch, audit.CreatedAPIKey}[n%4],
		Outcome: audit.Succeeded, Reason: "200", Source: audit.SourceREST,
		Actor:      audit.Actor{Kind: audit.ActorUser, ID: fmt.Sprintf("https://issuer.example.com#%06d", n%users), Email: fmt.Sprintf("user%d@example.com", n%users)},
		Deployment: audit.Deployment{ID: fmt.Sprint(deployment), Name: fmt.Sprintf("Analytics %d", deployment)},
		Object:     audit.Object{Kind: "Deployment", Namespace: account, Name: fmt.Sprintf("analytics-%d", deployment), ID: fmt.Sprint(deployment)},
		IP:         fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255), RequestID: requestID(n),
		Changes: json.RawMessage(fmt.Sprintf(`{"spec.releaseChannelVersion":{"before":"1.2.%d","after":"1.2.%d"},"spec.replicas":{"before":%d,"after":%d}}`, n%90, n%90+1, n%7, n%7+1)),
	}
}

// requestID returns 16 digits, with a prefix that is unique among the events.
func requestID(n int) string { return fmt.Sprintf("%016x", uint64(n)*0x9E3779B97F4A7C15) }

// fill stores the events.
func (b *bench) fill(ctx context.Context) error {
	from := time.Now().Add(-30 * 24 * time.Hour)
	start := time.Now()
	err := b.with(ctx, func(l *audit.Log) error {
		_, err := measure.Spread(ctx, (b.events+batch-1)/batch, fillers, func(ctx context.Context, i int) (time.Duration, error) {
			first := i * batch
			var events []audit.Event
			for n := first; n < min(first+batch, b.events); n++ {
				events = append(events, b.event(n, from))
			}
			err := l.Record(ctx, events...)
			if first%100_000 == 0 && first > 0 {
				measure.Progress("  %d of %d, %.0f/s", first, b.events, float64(first)/time.Since(start).Seconds())
			}
			return 0, err
		})
		return err
	})
	if err != nil {
		return err
	}
	b.report.Fact(b.Name+": storing finished events", "%.0f/s, %d callers with %d each", float64(b.events)/time.Since(start).Seconds(), fillers, batch)
	if b.Name == "PostgreSQL" {
		return b.psql.analyze(ctx)
	}
	return nil
}
