package fairqueue

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func queueOf(t *testing.T, each int) *queue {
	t.Helper()
	q, ok := New(2*each)("", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second)).(*queue)
	if !ok {
		t.Fatal("New does not return a priority queue")
	}
	t.Cleanup(q.ShutDown)
	return q
}

// get returns the next n items, and completes them.
func get(t *testing.T, q *queue, n int) (items []string) {
	t.Helper()
	for range n {
		item, priority, shutdown := q.GetWithPriority()
		if shutdown {
			t.Fatal("the queue is shut down")
		}
		q.Done(item)
		items = append(items, fmt.Sprint(item, " ", priority))
	}
	return items
}

func low() priorityqueue.AddOpts {
	return priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}
}

func TestQueue(t *testing.T) {
	for name, tc := range map[string]queueCase{
		"turns between namespaces": {
			func(q *queue) {
				for _, item := range []reconcile.Request{request("a", "1"), request("a", "2"), request("a", "3"), request("b", "1"), request("c", "1"), request("b", "2")} {
					q.Add(item)
				}
			},
			[]string{"a/1 0", "b/1 0", "c/1 0", "a/2 0", "b/2 0", "a/3 0"},
		},
		"once": {
			func(q *queue) {
				for range 3 {
					q.Add(request("a", "1"))
					q.AddWithOpts(low(), request("a", "2"))
				}
			},
			[]string{"a/1 0", "a/2 -100"},
		},
		"changes before resyncs": {
			func(q *queue) {
				q.AddWithOpts(low(), request("a", "1"), request("b", "1"), request("a", "2"))
				q.Add(request("a", "3"))
			},
			[]string{"a/3 0", "a/1 -100", "b/1 -100", "a/2 -100"},
		},
		"a resync after seven changes": {
			func(q *queue) {
				q.AddWithOpts(low(), request("a", "r1"), request("a", "r2"))
				for i := range 9 {
					q.Add(request("b", strconv.Itoa(i)))
				}
			},
			[]string{"b/0 0", "b/1 0", "b/2 0", "b/3 0", "b/4 0", "b/5 0", "b/6 0", "a/r1 -100", "b/7 0", "b/8 0", "a/r2 -100"},
		},
		"a change of an object that waits for its resync": {
			func(q *queue) {
				q.AddWithOpts(low(), request("a", "1"), request("a", "2"), request("a", "3"))
				q.Add(request("a", "2"))
				q.AddWithOpts(low(), request("a", "2"))
			},
			[]string{"a/2 0", "a/1 -100", "a/3 -100"},
		},
	} {
		t.Run(name, tc.run)
	}
}

// TestDelays: the priority of an item counts when its delay is over.
func TestDelays(t *testing.T) {
	for name, tc := range map[string]queueCase{
		"a resync of an object whose delay is not over": {
			func(q *queue) {
				q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour}, request("a", "1"))
				q.AddWithOpts(low(), request("a", "1"), request("a", "2"))
				q.Add(request("a", "3"))
			},
			[]string{"a/3 0", "a/1 -100", "a/2 -100"},
		},
		"an object that waits for its resync when its delay is over": {
			func(q *queue) {
				q.AddWithOpts(low(), request("a", "1"), request("a", "2"))
				q.waiting.delay(request("a", "2"), 0)
				due{q.ready, q.waiting}.Add(request("a", "2"))
			},
			[]string{"a/2 0", "a/1 -100"},
		},
	} {
		t.Run(name, tc.run)
	}
}

// queueCase is items that are added, and those that are returned, with their priorities.
type queueCase struct {
	add  func(q *queue)
	want []string
}

func (tc queueCase) run(t *testing.T) {
	q := queueOf(t, 1)
	tc.add(q)
	if got := get(t, q, len(tc.want)); !slices.Equal(got, tc.want) || q.Len() != 0 {
		t.Errorf("got %q and %d more, want %q", got, q.Len(), tc.want)
	}
	if n := len(q.waiting.priorities); n > 0 || !q.waiting.normal.IsEmpty() || !q.waiting.low.IsEmpty() {
		t.Errorf("the empty queue keeps %d entries", n)
	}
}

func TestItemIsNotReturnedWhileItIsProcessed(t *testing.T) {
	q := queueOf(t, 2)
	q.Add(request("a", "1"))
	first, _, _ := q.GetWithPriority()
	q.Add(first)
	q.Add(request("a", "2"))
	if got := get(t, q, 1); got[0] != "a/2 0" || q.Len() != 0 {
		t.Errorf("got %q while a/1 is processed", got)
	}
	q.Done(first)
	if got := get(t, q, 1); got[0] != "a/1 0" {
		t.Errorf("got %q after a/1 was processed", got)
	}
}

func TestDelayedItems(t *testing.T) {
	q := queueOf(t, 1)
	q.AddWithOpts(priorityqueue.AddOpts{After: time.Millisecond, Priority: ptr.To(handler.LowPriority)}, request("a", "1"))
	if got := get(t, q, 1); got[0] != "a/1 -100" {
		t.Errorf("got %q", got)
	}
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request("a", "2"))
	if got := get(t, q, 1); got[0] != "a/2 0" || q.NumRequeues(request("a", "2")) != 1 {
		t.Errorf("got %q with %d requeues", got, q.NumRequeues(request("a", "2")))
	}
}

// TestANamespaceHasHalfOfTheWorkers: further objects of it wait until one is done, and those of others do not.
func TestANamespaceHasHalfOfTheWorkers(t *testing.T) {
	q := queueOf(t, 2)
	add := func(names ...string) {
		for _, name := range names {
			q.Add(request("a", name))
		}
	}
	begin := func(want string) reconcile.Request {
		t.Helper()
		if q.Len() == 0 {
			t.Fatalf("%s waits", want)
		}
		item, _, _ := q.GetWithPriority()
		if got := item.String(); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		return item
	}
	add("1", "2", "3", "4")
	q.AddWithOpts(low(), request("a", "5"))
	first := begin("a/1")
	begin("a/2")
	if n := q.Len(); n != 0 {
		t.Errorf("%d more may begin", n)
	}
	q.Add(request("b", "1"))
	begin("b/1")
	for _, name := range []string{"1", "2"} { // of all accounts
		q.Add(request("", name))
		begin("/" + name)
	}
	q.Done(first)
	third := begin("a/3")
	q.Done(third)
	fourth := begin("a/4")
	q.Done(fourth)
	begin("a/5")
	if n := q.Len(); n != 0 {
		t.Errorf("%d more may begin", n)
	}
}

// TestWorkers: no object is left waiting, and no namespace has more workers than it may.
func TestWorkers(t *testing.T) {
	const each, objects = 2, 3000
	q := queueOf(t, each)
	var busy [2]atomic.Int32
	var done sync.WaitGroup
	done.Add(objects)
	for range 2 * each {
		go func() {
			for {
				item, _, shutdown := q.GetWithPriority()
				if shutdown {
					return
				}
				namespace, _ := strconv.Atoi(item.Namespace)
				if n := busy[namespace].Add(1); n > each {
					t.Errorf("%d workers for a namespace", n)
				}
				runtime.Gosched()
				busy[namespace].Add(-1)
				q.Done(item)
				done.Done()
			}
		}()
	}
	for i := range objects {
		q.Add(request(strconv.Itoa(i*i%3), strconv.Itoa(i))) // 0 is a third of them, and 1 the others
	}
	ended := make(chan struct{})
	go func() { done.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("%d objects are left", q.Len())
	}
	if len(q.waiting.inProgress) != 0 || len(q.waiting.queuedOf) != 0 {
		t.Errorf("afterwards: %v in progress, %v", q.waiting.inProgress, q.waiting.queuedOf)
	}
}
