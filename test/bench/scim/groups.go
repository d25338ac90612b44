package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// largeGroup is a group whose members are changed.
type largeGroup struct {
	id string
	// members and others are the numbers of the users that are members, and of those that are not.
	members, others []int
}

// swap picks a random user to add and a random member to remove.
func (g *largeGroup) swap() (added, removed int) {
	i, o := random.IntN(len(g.members)), random.IntN(len(g.others))
	g.members[i], g.others[o] = g.others[o], g.members[i]
	return g.members[i], g.others[o]
}

// groupSizes returns the sizes of the groups whose members are changed.
func (o options) groupSizes() []int {
	sizes := slices.DeleteFunc([]int{100, 1000, 5000, 10_000}, func(size int) bool { return size >= o.members })
	return append(sizes, o.members)
}

// membersOf returns the members attribute for users.
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

// createGroups creates the large groups first, so that the first page of groups contains them.
func (b *bench) createGroups(ctx context.Context) error {
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
	if err := b.createPlain(ctx); err != nil {
		return err
	}
	rest := b.groups - len(b.large)
	if rest == 0 {
		return nil
	}
	const small = 50
	bodies := make([][]byte, rest)
	for i := range bodies {
		members := randomNumbers(small, b.users)
		slices.Sort(members)
		var err error
		if bodies[i], err = groupBody(fmt.Sprintf("Team %07d", i), membersOf(b.ids, slices.Compact(members))); err != nil {
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

// createPlain creates the group that is updated without SCIM. All of its members are in the group itself, which makes the object as
// large as that of a group with 50 chunks, 64 members that were added and 500 that were removed.
func (b *bench) createPlain(ctx context.Context) (err error) {
	const members = 170
	body, err := groupBody("Updated without SCIM", membersOf(b.ids, sequence(0, min(members, b.users))))
	if err != nil {
		return err
	}
	b.plain, _, err = b.world.entra.create(ctx, "/Groups", body)
	return err
}

// change adds a user to a group and removes another one.
func change(ctx context.Context, s *service, status int, group, user, member string) (added, removed measure.Times, err error) {
	patch := func(operation map[string]any) (measure.Times, error) {
		return measure.Spread(ctx, 1, 1, func(ctx context.Context, _ int) (time.Duration, error) {
			return s.patch(ctx, "/Groups/"+group, status, operation)
		})
	}
	added, err = patch(map[string]any{"op": "add", "path": "members", "value": []map[string]string{{"value": user}}})
	if err == nil {
		removed, err = patch(map[string]any{"op": "remove", "path": fmt.Sprintf("members[value eq %q]", member)})
	}
	return added, removed, err
}

// changeMembers changes the groups of all sizes and updates a group and a user without SCIM, alternating, so that other load on
// the machine affects all of them.
func (b *bench) changeMembers(ctx context.Context) error {
	added, removed := make([]measure.Times, len(b.large)), make([]measure.Times, len(b.large))
	var updates, users measure.Times
	total := newCost()
	err := total.addOf(ctx, b.world, func() error {
		for i := range b.patches {
			for k, g := range b.large {
				user, member := g.swap()
				a, r, err := change(ctx, b.world.entra, http.StatusNoContent, g.id, b.ids[user], b.ids[member])
				if err != nil {
					return err
				}
				added[k], removed[k] = added[k].With(a), removed[k].With(r)
			}
			for _, plain := range []struct {
				object client.Object
				times  *measure.Times
			}{
				{&v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: b.plain}}, &updates},
				{&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: b.ids[i%len(b.ids)]}}, &users},
			} {
				update, err := b.update(ctx, plain.object, i)
				if err != nil {
					return err
				}
				*plain.times = plain.times.With(update)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	n := 2 * b.patches * len(b.large)
	b.report.cost(fmt.Sprintf("PATCH of one member, with %d raw updates in %d", 2*b.patches, n), total, n)
	b.report.Add("raw update of a user", users, "")
	b.report.Add("raw update of a group", updates, "an object of the same size")
	for i, g := range b.large {
		size := len(g.members)
		b.report.Add(memberWork("add", size), added[i], "")
		b.report.Add(memberWork("remove", size), removed[i], "")
	}
	if err := b.costOfMembers(ctx); err != nil {
		return err
	}
	small, large := added[0].With(removed[0]), added[len(b.large)-1].With(removed[len(b.large)-1])
	b.report.AtMost(fmt.Sprintf("%s, p99 ÷ p99 of a raw update of an object of the same size (%.1f ms)", memberWork("add or remove", b.members), updates.Milliseconds(0.99)),
		large.Milliseconds(0.99)/updates.Milliseconds(0.99), 1.3, "")
	b.report.AtMost(fmt.Sprintf("the same, median ÷ median of a group of %d", len(b.large[0].members)), large.Milliseconds(0.5)/small.Milliseconds(0.5), 1.3, "")
	return nil
}

// costOfMembers measures what kube-apiserver spends on the change of one member of the largest group. Processor time
// depends less on other load than latency.
func (b *bench) costOfMembers(ctx context.Context) error {
	const most = 15 // ms, of which a create of a user is 4 to 8
	g := b.large[len(b.large)-1]
	total := newCost()
	err := total.addOf(ctx, b.world, func() error {
		for range b.patches {
			user, member := g.swap()
			if _, _, err := change(ctx, b.world.entra, http.StatusNoContent, g.id, b.ids[user], b.ids[member]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	what := memberWork("add or remove", b.members)
	b.report.cost(what, total, 2*b.patches)
	b.report.AtMost(what+", processor time of kube-apiserver", total.cpu["kube-apiserver"]/float64(2*b.patches), most, " ms")
	return nil
}

// update patches an annotation of an object with a Kubernetes client.
func (b *bench) update(ctx context.Context, o client.Object, i int) (measure.Times, error) {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"bench.example.com/update":"%d"}}}`, i))
	return measure.Spread(ctx, 1, 1, func(ctx context.Context, _ int) (time.Duration, error) {
		start := time.Now()
		err := b.world.server.Patch(ctx, o, patch)
		return time.Since(start), err
	})
}

func memberWork(verb string, size int) string {
	return fmt.Sprintf("PATCH, %s one of %d members", verb, size)
}

// listGroups reads lists of groups. Okta's timeout for the second one is 600 ms.
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
			body, took, err := b.world.rfc.call(ctx, http.MethodGet, fmt.Sprintf("/Groups?%s&count=%d", l.query, n), nil, http.StatusOK)
			size = len(body)
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
