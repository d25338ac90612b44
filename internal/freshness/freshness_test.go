package freshness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

var kind = schema.GroupKind{Group: "example.com", Kind: "Thing"}

func thing(name string) ID {
	return ID{Kind: kind, Key: types.NamespacedName{Namespace: "acme", Name: name}}
}

// at is an object at a resource version.
func at(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name, ResourceVersion: version, UID: "uid"}}
}

func TestBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		written []string
		cached  string
		want    bool
	}{
		"no write":                       {nil, "5", false},
		"no write, no copy":              {nil, "", false},
		"older copy":                     {[]string{"7"}, "6", true},
		"no copy":                        {[]string{"7"}, "", true},
		"same copy":                      {[]string{"7"}, "7", false},
		"newer copy":                     {[]string{"7"}, "8", false},
		"versions compare as numbers":    {[]string{"10"}, "9", true},
		"the last write counts":          {[]string{"7", "9"}, "8", true},
		"responses out of order":         {[]string{"9", "7"}, "8", true},
		"write without a version":        {[]string{""}, "1", false},
		"versions that are not integers": {[]string{"abc"}, "1", false},
	} {
		t.Run(name, func(t *testing.T) {
			tracker := New(clock.RealClock{})
			for _, version := range tc.written {
				tracker.Wrote(thing("a"), version)
			}
			if got := tracker.Behind(thing("a"), tc.cached); got != tc.want {
				t.Errorf("Behind(%q) after writes %v is %v", tc.cached, tc.written, got)
			}
			if tracker.Behind(thing("b"), "1") {
				t.Error("another object is behind")
			}
			if !tc.want && len(tracker.written) != 0 {
				t.Errorf("%v is still recorded", tracker.written)
			}
		})
	}
}

// TestRecordsEnd: records of writes end with the event of the write, also if no one reads the object.
func TestRecordsEnd(t *testing.T) {
	tracker := New(clock.RealClock{})
	handler := tracker.Handler(kind)
	for i := range 100 {
		tracker.Wrote(thing(fmt.Sprint(i)), "10")
	}
	tracker.Wrote(thing("deleted"), "10")
	handler.OnAdd(at("0", "9"), false)
	handler.OnDelete(at("deleted", "9")) // of an object of the same name before
	if !tracker.Behind(thing("0"), "") || !tracker.Behind(thing("deleted"), "") {
		t.Error("an older event ended the record")
	}
	for i := range 100 {
		handler.OnUpdate(at(fmt.Sprint(i), "9"), at(fmt.Sprint(i), "11"))
	}
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: at("deleted", "12")})
	if len(tracker.written) != 0 {
		t.Errorf("%v are still recorded", tracker.written)
	}
	tracker.Wrote(thing("0"), "20")
	tracker.Forget(thing("0"))
	if tracker.Behind(thing("0"), "") {
		t.Error("a forgotten write is recorded")
	}
}

func TestVersionWaitsForTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := New(clock.RealClock{})
		observe, other := tracker.Observer(kind), tracker.Observer(schema.GroupKind{Kind: "Other"})
		w := tracker.Expect(thing("a"))
		defer w.Stop()
		done := make(chan error, 1)
		go func() { done <- w.Version(t.Context(), time.Minute, "10") }()
		for _, event := range []func(){
			func() { observe(nil, at("a", "9")) },
			func() { observe(nil, at("b", "11")) },
			func() { other(nil, at("a", "12")) },
		} {
			event()
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("the wait ended without the event: %v", err)
			default:
			}
		}
		observe(at("a", "9"), at("a", "10"))
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := w.Version(t.Context(), time.Minute, "8"); err != nil {
			t.Errorf("a version from before: %v", err)
		}
	})
}

// TestEventBeforeTheResponse: the event of a write is not missed if it is faster than the response.
func TestEventBeforeTheResponse(t *testing.T) {
	tracker := New(clock.RealClock{})
	observe := tracker.Observer(kind)
	w := tracker.Expect(thing("a"))
	defer w.Stop()
	observe(nil, at("a", "10"))
	observe(at("a", "10"), at("a", "11"))
	if err := w.Version(t.Context(), time.Minute, "10"); err != nil {
		t.Error(err)
	}
}

// TestWriteWithoutEffect: a write that changes nothing has no event and is not waited for.
func TestWriteWithoutEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := New(clock.RealClock{})
		observe := tracker.Observer(kind)
		observe(nil, at("a", "10"))
		begin := time.Now()
		w := tracker.Expect(thing("a"))
		defer w.Stop()
		if err := w.Version(t.Context(), time.Minute, "10"); err != nil || time.Since(begin) > 0 {
			t.Errorf("waited %s: %v", time.Since(begin), err)
		}
	})
}

func TestAbsence(t *testing.T) {
	deleting := at("a", "11")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	successor := at("a", "12")
	successor.UID = "other"
	for name, event := range map[string]func(h toolscache.ResourceEventHandler){
		"deleted": func(h toolscache.ResourceEventHandler) { h.OnDelete(at("a", "11")) },
		"missed event": func(h toolscache.ResourceEventHandler) {
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: at("a", "9")})
		},
		"being deleted":  func(h toolscache.ResourceEventHandler) { h.OnUpdate(at("a", "10"), deleting) },
		"has a new self": func(h toolscache.ResourceEventHandler) { h.OnUpdate(at("a", "10"), successor) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracker := New(clock.RealClock{})
				handler := tracker.Handler(kind)
				w := tracker.Expect(thing("a"))
				defer w.Stop()
				handler.OnUpdate(at("a", "9"), at("a", "10"))
				if err := w.Absence(t.Context(), time.Second, "uid"); !errors.Is(err, ErrTimeout) {
					t.Errorf("before the deletion: got %v, want a timeout", err)
				}
				event(handler)
				if err := w.Absence(t.Context(), time.Second, "uid"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := New(clock.RealClock{})
		w := tracker.Expect(thing("a"))
		if err := w.Version(t.Context(), time.Minute, "1"); err == nil || errors.Is(err, ErrTimeout) {
			t.Errorf("of a kind that is not observed: %v", err)
		}
		tracker.Observer(kind)
		begin := time.Now()
		if err := w.Version(t.Context(), time.Minute, "1"); !errors.Is(err, ErrTimeout) || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Version(ctx, time.Minute, "1"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		second := tracker.Expect(thing("a"))
		w.Stop()
		if len(tracker.waits) != 1 {
			t.Error("the end of one wait ended another")
		}
		second.Stop()
		if len(tracker.waits) != 0 {
			t.Errorf("%v are left", tracker.waits)
		}
	})
}

// TestConcurrentWriters: writers, readers and an informer that lags share a Tracker.
func TestConcurrentWriters(t *testing.T) {
	tracker := New(clock.RealClock{})
	observe := tracker.Observer(kind)
	events := make(chan int, 100)
	var informer, writers sync.WaitGroup
	informer.Go(func() {
		for version := range events {
			observe(nil, at("a", fmt.Sprint(version)))
		}
	})
	var mu sync.Mutex
	version := 0
	for range 8 {
		writers.Go(func() {
			for range 50 {
				w := tracker.Expect(thing("a"))
				mu.Lock()
				version++
				written := version
				events <- written
				mu.Unlock()
				tracker.Wrote(thing("a"), fmt.Sprint(written))
				if err := w.Version(t.Context(), 10*time.Second, fmt.Sprint(written)); err != nil {
					t.Error(err)
				}
				w.Stop()
				if tracker.Behind(thing("a"), fmt.Sprint(1<<30)) {
					t.Error("the newest copy is behind")
				}
			}
		})
	}
	writers.Wait()
	close(events)
	informer.Wait()
	if len(tracker.waits) != 0 || len(tracker.written) != 0 {
		t.Errorf("left: %v, %v", tracker.waits, tracker.written)
	}
}
