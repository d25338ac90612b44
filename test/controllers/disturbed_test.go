package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/apitest"
)

// TestFaultAtEveryCall injects a fault into each API call that the controllers make, one at a
// time and of each kind: every act ends in the same state as without it, with no duplicate
// child. Calls are the same if they have the controller, verb and kind in common, and are
// tried in the first scenario that has them. With QUOIN_FAULTS=all (make chaos-all) each repetition
// in each scenario is tried too, which takes hours; TestSampleOfFaults tries some of them.
func TestFaultAtEveryCall(t *testing.T) {
	apitest.Server(t) // skips the test when there is none
	sites := map[string]bool{}
	for _, s := range scenarios {
		base := s.baseline(t)
		untried := calls(base.faults)
		if !allFaults() {
			maps.DeleteFunc(untried, func(site string, _ int) bool { return sites[site] })
		}
		for site := range untried {
			sites[site] = true
		}
		if s.everyWrite != "" {
			maps.Copy(untried, repetitions(base.faults, func(site string) bool {
				return strings.Contains(site, s.everyWrite) && len(kindsOfFault(site)) > 1
			}))
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			t.Logf("%d calls, %d of them different", base.faults.calls, len(base.faults.sites))
			for _, site := range slices.Sorted(maps.Keys(untried)) {
				for _, kind := range kindsOfFault(site) {
					t.Run(site+", "+string(kind), func(t *testing.T) {
						t.Parallel()
						playWithFault(t, s, base, untried[site], kind)
					})
				}
			}
		})
	}
	if len(sites) < 40 {
		t.Errorf("only %d different calls: the faults are not between the controllers and the API server", len(sites))
	}
}

func playWithFault(t *testing.T, s *scenario, base *baseline, call int, kind fault) {
	t.Helper()
	w, got := s.play(t, 1, func(w *world) { w.faults.at, w.faults.kind = call, kind })
	if w.faults.where == "" {
		t.Errorf("call %d was not made again", call)
	}
	if diff := cmp.Diff(base.states, got); diff != "" {
		t.Errorf("call %d: ends in another state (-want +got):\n%s", call, diff)
	}
}

func allFaults() bool { return os.Getenv("QUOIN_FAULTS") == "all" }

// kindsOfFault returns the faults that differ for a call. A read changes nothing, so it is
// the same whether it fails, or the process is killed before or after it.
func kindsOfFault(site string) []fault {
	if strings.Contains(site, ": get ") || strings.Contains(site, ": list ") {
		return []fault{failing}
	}
	return []fault{lost, killedBefore, killedAfter}
}

// calls returns the numbers of the calls to disturb by their sites; with QUOIN_FAULTS=all, of
// all calls.
func calls(f *faults) map[string]int {
	if !allFaults() {
		return maps.Clone(f.sites)
	}
	return repetitions(f, func(string) bool { return true })
}

// repetitions returns the numbers of all calls whose site matches.
func repetitions(f *faults, match func(site string) bool) map[string]int {
	all := map[string]int{}
	for i, site := range f.made {
		if match(site) {
			all[fmt.Sprintf("%s (call %d)", site, i+1)] = i + 1
		}
	}
	return all
}

// TestConflictStorm lets another writer change the objects between the controllers' reads and
// writes, so that many of their writes fail with a conflict.
func TestConflictStorm(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario, base *baseline) {
		w, got := s.play(t, 1, func(w *world) { w.faults.beforeWrite = conflictingWriter(w, 5) })
		if w.faults.conflicts == 0 {
			t.Fatal("no write has failed with a conflict")
		}
		for i := range got {
			got[i] = withoutStorm(got[i])
		}
		if diff := cmp.Diff(base.states, got); diff != "" {
			t.Fatalf("ends in another state (-want +got):\n%s", diff)
		}
	})
}

// conflictingWriter returns a function that writes a label to every other object.
func conflictingWriter(w *world, seed uint64) func(ctx context.Context, obj client.Object) {
	n, order := 0, rand.New(rand.NewPCG(seed, 17))
	return func(ctx context.Context, obj client.Object) {
		if n++; order.IntN(2) == 0 {
			return
		}
		u := &metav1.PartialObjectMetadata{}
		gvk, err := w.api.GroupVersionKindFor(obj)
		if err != nil {
			return
		}
		u.SetGroupVersionKind(gvk)
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"storm":"%d"}}}`, n)
		u.SetNamespace(obj.GetNamespace())
		u.SetName(obj.GetName())
		_ = w.api.Patch(ctx, u, client.RawPatch("application/merge-patch+json", patch))
	}
}

// TestStaleCache answers some reads with an earlier version of the object.
func TestStaleCache(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario, base *baseline) {
		forEachSeed(t, []uint64{0, 1, 2}, func(t *testing.T, seed uint64) {
			w, got := s.play(t, 1, func(w *world) { w.stale = newStaleReads(seed); w.restart() })
			if w.stale.served == 0 {
				t.Fatal("no read was stale")
			}
			if diff := cmp.Diff(base.states, got); diff != "" {
				t.Fatalf("ends in another state (-want +got):\n%s", diff)
			}
		})
	})
}
