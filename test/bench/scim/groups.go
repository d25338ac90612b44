package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// largeGroup is one whose members are changed.
type largeGroup struct {
	id string
	// in and out are the numbers of the users that are members, and of those that are not.
	in, out []int
}

// swap picks one user who is not in the group and one who is, and has them change places.
func (g *largeGroup) swap() (joins, leaves int) {
	i, o := random.IntN(len(g.in)), random.IntN(len(g.out))
	g.in[i], g.out[o] = g.out[o], g.in[i]
	return g.in[i], g.out[o]
}

// groupSizes are those of the groups whose members are changed.
func (o options) groupSizes() []int {
	sizes := slices.DeleteFunc([]int{100, 1000, 5000, 10_000}, func(size int) bool { return size >= o.members })
	return append(sizes, o.members)
}

// membersOf are users as a group names them.
func membersOf(ids []string, numbers []int) []map[string]string {
	all := make([]map[string]string, len(numbers))
	for i, user := range numbers {
		all[i] = map[string]string{"value": ids[user]}
	}
	return all
}

func sequence(from, to int) []int {
	all := make([]int, to-from)
	for i := range all {
		all[i] = from + i
	}
	return all
}

func groupBody(name string, members []map[string]string) ([]byte, error) {
	return json.Marshal(map[string]any{"schemas": []string{groupURN}, "displayName": name, "members": members})
}

// makeGroups makes the large groups first, so that the first page of groups holds them.
func (b *bench) makeGroups(ctx context.Context) error {
	var batches measure.Times
	for _, size := range b.groupSizes() {
		body, err := groupBody(fmt.Sprintf("Group of %d", size), nil)
		if err != nil {
			return err
		}
		id, _, err := b.world.entra.create(ctx, "/Groups", body)
		if err != nil {
			return err
		}
		n := (size + b.batch - 1) / b.batch
		m, err := measure.Spread(ctx, n, 1, reporting("batches of members", n, func(ctx context.Context, i int) (time.Duration, error) {
			return b.world.entra.patch(ctx, "/Groups/"+id, http.StatusNoContent, map[string]any{
				"op": "add", "path": "members", "value": membersOf(b.ids, sequence(i*b.batch, min((i+1)*b.batch, size))),
			})
		}))
		if err != nil {
			return err
		}
		if size == b.members {
			batches = m
		}
		b.large = append(b.large, &largeGroup{id, sequence(0, size), sequence(size, b.users)})
	}
	b.report.Add(fmt.Sprintf("PATCH that adds %d members", min(b.batch, b.members)), batches, "up to %d members", b.members)
	rest := b.groups - len(b.large)
	if rest == 0 {
		return nil
	}
	const small = 50
	bodies := make([][]byte, rest)
	for i := range bodies {
		who := anyOf(small, b.users)
		slices.Sort(who)
		var err error
		if bodies[i], err = groupBody(fmt.Sprintf("Team %07d", i), membersOf(b.ids, slices.Compact(who))); err != nil {
			return err
		}
	}
	m, err := measure.Spread(ctx, rest, b.callers, reporting("groups", rest, func(ctx context.Context, i int) (time.Duration, error) {
		_, took, err := b.world.entra.create(ctx, "/Groups", bodies[i])
		return took, err
	}))
	if err == nil {
		b.report.Add(fmt.Sprintf("POST /Groups with %d members", small), m, "%d at once", b.callers)
	}
	return err
}

// change has a user join a group, and another one leave it.
func change(ctx context.Context, s *service, status int, group, joins, leaves string) (added, removed measure.Times, err error) {
	patch := func(operation map[string]any) (measure.Times, error) {
		return measure.Spread(ctx, 1, 1, func(ctx context.Context, _ int) (time.Duration, error) {
			return s.patch(ctx, "/Groups/"+group, status, operation)
		})
	}
	added, err = patch(map[string]any{"op": "add", "path": "members", "value": []map[string]string{{"value": joins}}})
	if err == nil {
		removed, err = patch(map[string]any{"op": "remove", "path": fmt.Sprintf("members[value eq %q]", leaves)})
	}
	return added, removed, err
}

// changeMembers changes groups of all sizes by turns: what else the machine does meets all of them.
func (b *bench) changeMembers(ctx context.Context) error {
	added, removed := make([]measure.Times, len(b.large)), make([]measure.Times, len(b.large))
	spent := newCost()
	err := spent.spending(ctx, b.world, func() error {
		for range b.patches {
			for i, g := range b.large {
				joins, leaves := g.swap()
				a, r, err := change(ctx, b.world.entra, http.StatusNoContent, g.id, b.ids[joins], b.ids[leaves])
				if err != nil {
					return err
				}
				added[i], removed[i] = added[i].With(a), removed[i].With(r)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.report.cost("PATCH of one member", spent, 2*b.patches*len(b.large))
	for i, g := range b.large {
		size := len(g.in)
		b.report.Add(memberWork("add", size), added[i], "")
		b.report.Add(memberWork("remove", size), removed[i], "")
		b.report.AtMost(memberWork("add or remove", size)+", p99", added[i].With(removed[i]).Milliseconds(0.99), 50, " ms")
	}
	last := len(b.large) - 1
	b.report.Fact("flat?", "p50 at %d members ÷ p50 at %d: add %.2f, remove %.2f", len(b.large[last].in), len(b.large[0].in),
		added[last].Milliseconds(0.5)/added[0].Milliseconds(0.5), removed[last].Milliseconds(0.5)/removed[0].Milliseconds(0.5))
	return nil
}

func memberWork(verb string, size int) string {
	return fmt.Sprintf("PATCH, %s one of %d members", verb, size)
}

// listGroups reads lists of groups. Okta gives up on the second after 600 ms.
func (b *bench) listGroups(ctx context.Context) error {
	const few = 20
	n := min(pageSize, b.groups)
	lists := []struct{ what, query, note string }{
		{"/Groups?excludedAttributes=members", "excludedAttributes=members&startIndex=1", "the large groups among them"},
		{"/Groups?count=100", "startIndex=1", "the large groups among them, with all members"},
	}
	if b.groups >= 2*pageSize {
		lists = append(lists, struct{ what, query, note string }{"/Groups?count=100, second page", fmt.Sprintf("startIndex=%d", pageSize+1), "groups of 50 members"})
	}
	for _, l := range lists {
		size := 0
		m, err := measure.Spread(ctx, few, 1, func(ctx context.Context, _ int) (time.Duration, error) {
			answer, took, err := b.world.rfc.call(ctx, http.MethodGet, fmt.Sprintf("/Groups?%s&count=%d", l.query, n), nil, http.StatusOK)
			size = len(answer)
			return took, err
		})
		if err != nil {
			return err
		}
		b.report.Add("GET "+l.what, m, "%s; %.1f MB", l.note, float64(size)/1e6)
		b.report.AtMost("GET "+l.what+", p99", m.Milliseconds(0.99), 600, " ms")
	}
	return nil
}
