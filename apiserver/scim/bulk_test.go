package scim

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// numbering is a store that numbers the resources, and rejects those with the name "bad".
type numbering struct {
	Store
	made int
}

// CreateResource implements Store.
func (s *numbering) CreateResource(_ context.Context, t *schema.ResourceType, d schema.Document) (*schema.Resource, error) {
	if d["displayName"] == "bad" {
		return nil, scimerror.Bad(scimerror.InvalidValue, "bad")
	}
	s.made++
	return &schema.Resource{Type: t, ID: strconv.Itoa(s.made), Document: d}, nil
}

// ReplaceResource implements Store.
func (s *numbering) ReplaceResource(_ context.Context, t *schema.ResourceType, id string, _ func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error) {
	return &schema.Resource{Type: t, ID: id}, nil
}

// DeleteResource implements Store.
func (s *numbering) DeleteResource(context.Context, *schema.ResourceType, string, func(*schema.Resource) error) error {
	return nil
}

func bulkRunOf(operations []*bulkOperation, failOnErrors int) *bulkRun {
	for i, o := range operations {
		o.index = i
		o.references, o.target = references(o)
	}
	x := exchangeWith(nil)
	x.tenant.Store = &numbering{}
	return newBulkRun(x, operations, failOnErrors)
}

// groupOperation returns an operation that creates a group with members by bulkId.
func groupOperation(bulkID, displayName string, members ...int) *bulkOperation {
	list := make([]any, len(members))
	for i, m := range members {
		list[i] = map[string]any{"value": bulkIDPrefix + strconv.Itoa(m)}
	}
	return &bulkOperation{method: http.MethodPost, path: "/Groups", bulkID: bulkID, data: map[string]any{"displayName": displayName, "members": list}}
}

// nextByDefinition is next without counters.
func nextByDefinition(run *bulkRun) (*bulkOperation, bool) {
	creations := map[string]*bulkOperation{}
	for _, o := range run.operations {
		if o.method == http.MethodPost {
			creations[o.bulkID] = o
		}
	}
	var creation, first *bulkOperation
	for _, o := range run.operations {
		waits := o.method != http.MethodPost && slices.Contains(run.unfinished, creations[o.target])
		if o.result != nil || waits {
			continue
		}
		missing, pending := false, true
		for _, id := range o.references {
			if _, ok := run.ids[id]; !ok {
				missing, pending = true, pending && creations[id] != nil && creations[id].result == nil
			}
		}
		if !missing {
			return o, true
		}
		if creation == nil && pending && o.method == http.MethodPost {
			creation = o
		}
		if first == nil {
			first = o
		}
	}
	if creation != nil {
		return creation, false
	}
	return first, true
}

// TestOrderOfBulkOperations compares the order of the operations of random requests with its definition: with references to
// operations before and after, cycles, creations that fail, and deletions of what is created.
func TestOrderOfBulkOperations(t *testing.T) {
	const n = 12
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		operations := make([]*bulkOperation, n)
		for i := range operations {
			var members []int
			for range random.IntN(4) {
				members = append(members, random.IntN(n))
			}
			name := "g"
			if random.IntN(6) == 0 {
				name = "bad"
			}
			operations[i] = groupOperation(strconv.Itoa(i), name, members...)
			if random.IntN(4) == 0 {
				operations[i].method, operations[i].path = http.MethodDelete, "/Groups/"+bulkIDPrefix+strconv.Itoa(random.IntN(n))
			}
		}
		run := bulkRunOf(operations, 3*random.IntN(2))
		for !run.stopped() {
			want, wantComplete := nextByDefinition(run)
			o, complete := run.next()
			if o != want || complete != wantComplete {
				t.Fatalf("seed %d: %+v, complete %t; want %+v, complete %t", seed, o, complete, want, wantComplete)
			}
			if o == nil {
				break
			}
			run.run(t.Context(), o, complete)
			run.finish(t.Context())
		}
		if !run.stopped() && slices.ContainsFunc(operations, func(o *bulkOperation) bool { return o.result == nil }) {
			t.Errorf("seed %d: an operation has no result", seed)
		}
	}
}

// TestReferencesAreCountedOnce: the choice of the next operation looks at no references. A request within the limits may have a
// thousand operations and tens of thousands of references: looking at all of them before each operation took seconds.
func TestReferencesAreCountedOnce(t *testing.T) {
	run := bulkRunOf([]*bulkOperation{groupOperation("0", "a", 1), groupOperation("1", "b", 0, 2), groupOperation("2", "c")}, 0)
	for _, o := range run.operations {
		o.references = nil
	}
	for _, want := range []int{2, 0, 1} {
		o, complete := run.next()
		if o.index != want || complete != (want != 0) {
			t.Fatalf("operation %d, complete %t; want operation %d", o.index, complete, want)
		}
		run.run(t.Context(), o, complete)
		run.finish(t.Context())
	}
	for _, o := range run.operations {
		if o.result == nil || o.result.Status != "201" {
			t.Errorf("operation %d: %+v", o.index, o.result)
		}
	}
}
