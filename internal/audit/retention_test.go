package audit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

func testRetention(t *testing.T, w *world) {
	l := w.log(t, Options{Clock: clocktesting.NewFakePassiveClock(epoch.Add(10 * time.Second))})
	for i := range 10 {
		record(t, l, at(i), at(i+100, func(e *Event) { e.Account = "other"; e.Time = epoch }))
	}
	for _, test := range []struct {
		limits  Limits
		deleted int
		left    []int
	}{
		{Limits{}, 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{Limits{MaxEvents: 10}, 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{Limits{MaxEvents: 9}, 1, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{Limits{MaxAge: 8 * time.Second}, 1, []int{2, 3, 4, 5, 6, 7, 8, 9}},
		{Limits{MaxAge: 8 * time.Second, MaxEvents: 6}, 2, []int{4, 5, 6, 7, 8, 9}},
		{Limits{MaxAge: 4 * time.Second, MaxEvents: 6}, 2, []int{6, 7, 8, 9}},
		{Limits{MaxAge: time.Hour, MaxEvents: 100}, 0, []int{6, 7, 8, 9}},
	} {
		deleted, err := l.Retain(t.Context(), "demo", test.limits)
		if err != nil || deleted != test.deleted {
			t.Errorf("%+v: %d deleted, %v, want %d", test.limits, deleted, err, test.deleted)
		}
		if diff := cmp.Diff(test.left, numbers(find(t, l, Filter{}))); diff != "" {
			t.Errorf("%+v: %s", test.limits, diff)
		}
	}
	if got := find(t, l, Filter{Account: "other", Search: "created"}); len(got) != 10 {
		t.Errorf("%d events of another account are left", len(got))
	}
	// The index does not find deleted events either.
	if got := find(t, l, Filter{Search: "created user"}); len(got) != 4 {
		t.Errorf("%d events are found", len(got))
	}
}

func testRetentionWhileWriting(t *testing.T, w *world) {
	l := w.log(t, Options{})
	const old, writers, each, cleaners = 3 * deleteBatch, 4, 50, 3
	var events []Event
	for i := range old {
		events = append(events, at(i, func(e *Event) { e.Outcome = Attempted }))
	}
	record(t, l, events...)
	limits := Limits{MaxAge: time.Since(epoch.Add(old * time.Second))}
	var all sync.WaitGroup
	total := make([]int, cleaners)
	for i := range cleaners {
		all.Go(func() {
			deleted, err := l.Retain(context.Background(), "demo", limits)
			if total[i] = deleted; err != nil {
				t.Error(err)
			}
		})
	}
	for i := range writers {
		all.Go(func() {
			for j := range each {
				// New events, and outcomes of events that are being deleted.
				a, err := l.Begin(context.Background(), Event{Account: "demo", Time: time.Now().Add(time.Hour), Name: CreatedUser, Source: SourceREST, Actor: Actor{Kind: ActorKey}})
				if err == nil {
					err = a.End(context.Background(), Succeeded, Details{})
				}
				if err != nil {
					t.Error(err)
				}
				ended := at(i*each + j)
				if err := l.Record(context.Background(), ended); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// Outcomes may have been stored after their attempts were deleted.
	again, err := l.Retain(t.Context(), "demo", limits)
	if err != nil {
		t.Fatal(err)
	}
	if got := total[0] + total[1] + total[2] + again; got < old {
		t.Errorf("%d events were deleted, want %d at least", got, old)
	}
	if n := w.count(t); n != writers*each {
		t.Errorf("%d events are left, want %d", n, writers*each)
	}
	for _, e := range find(t, l, Filter{}) {
		if e.Outcome != Succeeded {
			t.Errorf("the outcome of %s is %s", e.ID, e.Outcome)
		}
	}
}

func testRunRetention(t *testing.T, w *world) {
	l := w.log(t, Options{Clock: clocktesting.NewFakePassiveClock(epoch.Add(time.Hour))})
	for i := range 6 {
		record(t, l, at(i, func(e *Event) { e.Account = []string{"a", "b", "c"}[i%3] }))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- l.RunRetention(ctx, time.Millisecond, func(account string) Limits {
			return map[string]Limits{"a": {MaxEvents: 1}, "b": {MaxAge: time.Second}}[account]
		})
	}()
	eventually(t, "a has one event, b none, c two", func() bool { return w.count(t) == 3 })
	record(t, l, at(10, func(e *Event) { e.Account = "b" }))
	eventually(t, "retention runs again", func() bool { return w.count(t) == 3 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if a, c := find(t, l, Filter{Account: "a"}), find(t, l, Filter{Account: "c"}); len(a) != 1 || len(c) != 2 {
		t.Errorf("a has %d events, c %d", len(a), len(c))
	}
}
