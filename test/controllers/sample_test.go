package controllers_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/apitest"
)

// Faults of a whole run, in addition to those of one call.
const (
	conflicts  fault = "conflicting writer"
	staleCache fault = "stale cache"
)

// wholeRuns is how often a sample has each fault of a whole run in each scenario, with another seed each time.
const wholeRuns = 4

// attempt is one run of a scenario with a fault.
type attempt struct {
	scenario int // index in scenarios
	// site and call name the call that fails, for faults of one call.
	site string
	call int
	kind fault
	seed uint64 // of faults of a whole run
}

// String is the name of the subtest.
func (a attempt) String() string {
	name := fmt.Sprintf("%s, %s, ", scenarios[a.scenario].name, a.kind)
	if a.call == 0 {
		return name + fmt.Sprint("seed ", a.seed)
	}
	return name + fmt.Sprintf("%s, call %d", a.site, a.call)
}

// sample orders all attempts by a seed: each different call with each fault comes once before any of them is repeated, and
// in a random scenario.
func sample(seed uint64, made [][]string) []attempt {
	order := rand.New(rand.NewPCG(seed, 23))
	groups := map[string][]attempt{}
	for i, sites := range made {
		for call, site := range sites {
			for _, kind := range kindsOfFault(site) {
				group := site + string(kind)
				groups[group] = append(groups[group], attempt{scenario: i, site: site, call: call + 1, kind: kind})
			}
		}
		for _, kind := range []fault{conflicts, staleCache} {
			for range wholeRuns {
				group := string(kind) + strconv.Itoa(i)
				groups[group] = append(groups[group], attempt{scenario: i, kind: kind, seed: order.Uint64N(1 << 32)})
			}
		}
	}
	type ranked struct {
		attempt
		round, position int
	}
	var all []ranked
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		for round, i := range order.Perm(len(groups[name])) {
			all = append(all, ranked{groups[name][i], round, order.Int()})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.position, b.position))
	})
	attempts := make([]attempt, len(all))
	for i, a := range all {
		attempts[i] = a.attempt
	}
	return attempts
}

// tally counts the attempts by fault.
type tally struct {
	mu                      sync.Mutex
	possible, tries, losses map[fault]int
}

// String is a table. A loss is a run that did not end in the same state as one without faults.
func (c *tally) String() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, possible, tries, losses int) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t\n", name, possible, tries, losses)
	}
	fmt.Fprintf(table, "fault\tpossible\ttries\tlosses\t\n")
	var possible, tries, losses int
	for _, kind := range slices.Sorted(maps.Keys(c.possible)) {
		row(string(kind), c.possible[kind], c.tries[kind], c.losses[kind])
		possible, tries, losses = possible+c.possible[kind], tries+c.tries[kind], losses+c.losses[kind]
	}
	row("total", possible, tries, losses)
	_ = table.Flush() // a strings.Builder does not fail
	return b.String()
}

// TestSampleOfFaults (make chaos) injects as many faults of TestFaultAtEveryCall, TestConflictStorm and TestStaleCache as
// QUOIN_FAULTS_TIME allows, at random repetitions of the calls, and prints a table. QUOIN_FAULTS_SEED repeats the order.
func TestSampleOfFaults(t *testing.T) {
	limit, err := time.ParseDuration(cmp.Or(os.Getenv("QUOIN_FAULTS_TIME"), "10s"))
	if err != nil {
		t.Fatalf("QUOIN_FAULTS_TIME: %v", err)
	}
	seed := rand.Uint64N(1 << 32)
	if text := os.Getenv("QUOIN_FAULTS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("QUOIN_FAULTS_SEED=%q: want a number: %v", text, err)
		}
	}
	apitest.Server(t) // skips the test when there is none
	made := make([][]string, len(scenarios))
	for i, s := range scenarios {
		made[i] = s.baseline(t).faults.made
	}
	queue := sample(seed, made)
	counts := &tally{possible: map[fault]int{}, tries: map[fault]int{}, losses: map[fault]int{}}
	for _, a := range queue {
		counts.possible[a.kind]++
	}
	t.Cleanup(func() { fmt.Printf("QUOIN_FAULTS_SEED=%d, %s\n%s", seed, limit, counts) })
	deadline := time.Now().Add(limit)
	for i := range 3 * runtime.GOMAXPROCS(0) { // as in TestMain
		t.Run(fmt.Sprint("worker ", i), func(t *testing.T) {
			t.Parallel()
			for time.Now().Before(deadline) {
				a, ok := counts.next(&queue)
				if !ok {
					return
				}
				lost := !t.Run(a.String(), func(t *testing.T) { a.play(t) })
				counts.add(a.kind, lost)
			}
		})
	}
}

// next removes the first attempt of a queue.
func (c *tally) next(queue *[]attempt) (attempt, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*queue) == 0 {
		return attempt{}, false
	}
	first := (*queue)[0]
	*queue = (*queue)[1:]
	return first, true
}

func (c *tally) add(kind fault, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries[kind]++
	if lost {
		c.losses[kind]++
	}
}

// play runs the scenario with the fault. The test fails if it ends in another state.
func (a attempt) play(t *testing.T) {
	t.Helper()
	s := scenarios[a.scenario]
	base := s.baseline(t)
	switch a.kind {
	case conflicts:
		_, got := s.play(t, 1, func(w *world) { w.faults.beforeWrite = conflictingWriter(w, a.seed) })
		for i := range got {
			got[i] = withoutStorm(got[i])
		}
		if diff := gocmp.Diff(base.states, got); diff != "" {
			t.Errorf("ends in another state (-want +got):\n%s", diff)
		}
	case staleCache:
		_, got := s.play(t, 1, func(w *world) { w.stale = newStaleReads(a.seed); w.restart() })
		if diff := gocmp.Diff(base.states, got); diff != "" {
			t.Errorf("ends in another state (-want +got):\n%s", diff)
		}
	default:
		playWithFault(t, s, base, a.call, a.kind)
	}
}

// TestSampleHasEveryCallFirst checks the order of a sample: the first round has each different call with each of its faults
// once, a seed repeats the order, and another one changes it.
func TestSampleHasEveryCallFirst(t *testing.T) {
	made := make([][]string, len(scenarios))
	for i := range made {
		made[i] = []string{"Account: get *v1.Namespace", "Account: patch *v1alpha1.Account", "Account: get *v1.Namespace"}
	}
	got := sample(7, made)
	total := len(scenarios) * (2*1 + 3 + 2*wholeRuns) // the read fails; the write has three faults
	if len(got) != total {
		t.Errorf("%d attempts, want %d", len(got), total)
	}
	first := map[string]int{}
	for _, a := range got[:1+3+2*len(scenarios)] {
		if a.call == 0 {
			first[fmt.Sprint(a.kind, a.scenario)]++
			continue
		}
		if made[a.scenario][a.call-1] != a.site {
			t.Errorf("call %d of %s is not %s", a.call, scenarios[a.scenario].name, a.site)
		}
		first[a.site+string(a.kind)]++
	}
	for what, n := range first {
		if n != 1 {
			t.Errorf("%s: %d times in the first round", what, n)
		}
	}
	if diff := gocmp.Diff(got, sample(7, made), gocmp.AllowUnexported(attempt{})); diff != "" {
		t.Errorf("the same seed has another order:\n%s", diff)
	}
	if slices.Equal(got, sample(8, made)) {
		t.Error("another seed has the same order")
	}
	counts := &tally{possible: map[fault]int{lost: 3, conflicts: 2}, tries: map[fault]int{}, losses: map[fault]int{}}
	counts.add(lost, true)
	counts.add(lost, false)
	for _, line := range []string{"  response is lost         3      2       1", "             total         5      2       1"} {
		if !strings.Contains(counts.String(), line) {
			t.Errorf("no line %q in\n%s", line, counts)
		}
	}
}
