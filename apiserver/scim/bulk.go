package scim

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Limits of a bulk request, as published in /ServiceProviderConfig.
const (
	maxOperations = 1000
	maxPayload    = 1 << 20
)

// Message schemas (RFC 7644 section 3.7).
const (
	bulkRequestURN  = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
	bulkResponseURN = "urn:ietf:params:scim:api:messages:2.0:BulkResponse"
)

// bulkOperation is one operation of a bulk request.
type bulkOperation struct {
	index                         int
	method, path, bulkID, version string
	data                          map[string]any
	// target is the bulkId in path; empty if there is none.
	target string
	// references are the bulkIds that path and data refer to.
	references []string
	result     *bulkResult
	// creator is the operation that creates the resource in path; nil if none does, and for a creation.
	creator *bulkOperation
	// missing is the number of references that have no id yet. unresolvable reports whether one of them never gets one: no
	// operation creates it, or the one that does has failed.
	missing      int
	unresolvable bool
	// unfinished reports whether this is a creation that still lacks references to resources created later.
	unfinished bool
}

// bulkResult is the result of an operation.
type bulkResult struct {
	Method   string          `json:"method"`
	BulkID   string          `json:"bulkId,omitempty"`
	Version  string          `json:"version,omitempty"`
	Location string          `json:"location,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
	Status   string          `json:"status"`
}

// bulk performs several operations in one request, each like a request of its own. An operation
// that refers to a resource that another operation creates runs after it (RFC 7644 section 3.7).
func (x *exchange) bulk() error {
	body, err := x.body()
	if err != nil {
		return err
	}
	operations, failOnErrors, err := parseBulk(body)
	if err != nil {
		return err
	}
	run := newBulkRun(x, operations, failOnErrors)
	if err := run.runAll(x.Context()); err != nil {
		return err
	}
	results := []*bulkResult{}
	for _, o := range operations {
		if o.result != nil {
			results = append(results, o.result)
		}
	}
	return x.writeJSON(object{"schemas": []string{bulkResponseURN}, "Operations": results})
}

// bulkRun performs the operations of one request.
type bulkRun struct {
	x            *exchange
	operations   []*bulkOperation
	failOnErrors int
	errors       int
	// dependents are the operations that refer to a creation by its bulkId, once for each reference.
	dependents map[string][]*bulkOperation
	// ids are the ids of created resources by bulkId.
	ids map[string]string
	// unfinished are creations that still lack references to resources created later.
	unfinished []*bulkOperation
}

// newBulkRun returns the run of operations. A request may have tens of thousands of references: they are counted once, so that
// next need not look at them.
func newBulkRun(x *exchange, operations []*bulkOperation, failOnErrors int) *bulkRun {
	run := &bulkRun{x: x, operations: operations, failOnErrors: failOnErrors, ids: map[string]string{}, dependents: map[string][]*bulkOperation{}}
	creations := map[string]*bulkOperation{}
	for _, o := range operations {
		if o.method == http.MethodPost {
			creations[o.bulkID] = o
		}
	}
	for _, o := range operations {
		if o.method != http.MethodPost && o.target != "" {
			o.creator = creations[o.target]
		}
		o.missing = len(o.references)
		for _, id := range o.references {
			if creations[id] == nil {
				o.unresolvable = true
				continue
			}
			run.dependents[id] = append(run.dependents[id], o)
		}
	}
	return run
}

// runAll performs the operations in the order of the request, except that an operation runs after
// the creations that it refers to. In a reference cycle one resource is created without the
// references, which are added as soon as their targets exist.
func (run *bulkRun) runAll(ctx context.Context) error {
	for !run.stopped() {
		o, complete := run.next()
		if o == nil {
			break
		}
		if wait := run.x.caller.Wait; wait != nil && o.index > 0 {
			if err := wait(ctx); err != nil {
				return err
			}
		}
		run.run(ctx, o, complete)
		run.finish(ctx)
	}
	run.finish(ctx) // one that was pending when another one has ended the request
	return ctx.Err()
}

func (run *bulkRun) stopped() bool {
	return run.failOnErrors > 0 && run.errors >= run.failOnErrors
}

// next returns the first pending operation whose references are all resolved. If there is none, it
// returns the first creation in a cycle, with complete false. If there is none either, the
// references can never be resolved: it returns the first pending operation, which then fails.
// An operation on a resource that still lacks references waits: adding them would undo its change.
func (run *bulkRun) next() (o *bulkOperation, complete bool) {
	var creation, first *bulkOperation
	for _, o := range run.operations {
		switch {
		case o.result != nil, o.waits():
			continue
		case o.missing == 0:
			return o, true
		case creation == nil && o.method == http.MethodPost && run.pending(o):
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

// waits reports whether an operation is one on a resource that still lacks references. Then there is a pending creation, which does
// not wait.
func (o *bulkOperation) waits() bool { return o.creator != nil && o.creator.unfinished }

// firstMissing returns the first bulkId that an operation refers to and that has no id.
func (run *bulkRun) firstMissing(o *bulkOperation) string {
	i := slices.IndexFunc(o.references, func(id string) bool {
		_, ok := run.ids[id]
		return !ok
	})
	return clipID(o.references[i])
}

// pending reports whether all missing references of an operation can still be created.
func (run *bulkRun) pending(o *bulkOperation) bool { return !run.stopped() && !o.unresolvable }

// run performs one operation and records its result.
func (run *bulkRun) run(ctx context.Context, o *bulkOperation, complete bool) {
	o.result = &bulkResult{Method: o.method, BulkID: o.bulkID}
	status, r, err := run.perform(ctx, o, complete)
	if err == nil && !complete {
		o.unfinished = true
		run.unfinished = append(run.unfinished, o)
	}
	run.record(o, status, r, err)
	if o.method == http.MethodPost {
		run.settle(o)
	}
}

// settle updates the operations that refer to a creation that was performed.
func (run *bulkRun) settle(creation *bulkOperation) {
	_, created := run.ids[creation.bulkID]
	for _, o := range run.dependents[creation.bulkID] {
		if created {
			o.missing--
		} else {
			o.unresolvable = true
		}
	}
}

func (run *bulkRun) record(o *bulkOperation, status int, r *schema.Resource, err error) {
	if err != nil {
		e := toError(run.x.Context(), err)
		o.result.Status, o.result.Response = strconv.Itoa(e.Status), errorBody(e)
		run.errors++
		return
	}
	o.result.Status = strconv.Itoa(status)
	if r != nil {
		o.result.Location, o.result.Version = run.x.locate(r.Type.Name, r.ID), r.ETag()
		if o.method == http.MethodPost {
			run.ids[o.bulkID] = r.ID
		}
	}
}

func (run *bulkRun) perform(ctx context.Context, o *bulkOperation, complete bool) (int, *schema.Resource, error) {
	if complete && o.missing > 0 {
		return 0, nil, scimerror.New(http.StatusConflict, "bulkId:%s: no operation created it", run.firstMissing(o))
	}
	t, id, err := run.target(o)
	if err != nil {
		return 0, nil, err
	}
	if id != "" {
		o.result.Location = run.x.locate(t.Name, id) // also of a failed operation (RFC 7644 section 3.7.3)
	}
	if o.data == nil && o.method != http.MethodDelete {
		return 0, nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].data: is required", o.index)
	}
	data, _ := resolve(o.data, run.ids, !complete).(map[string]any)
	operations, c := run.x.operations(), condition{match: o.version}
	switch o.method {
	case http.MethodPost:
		r, err := operations.createResource(ctx, t, data)
		return http.StatusCreated, r, err
	case http.MethodPut:
		r, err := operations.replaceResource(ctx, t, id, data, c)
		return http.StatusOK, r, err
	case http.MethodPatch:
		r, err := operations.patchResource(ctx, t, id, data, c)
		return http.StatusOK, r, err
	}
	return http.StatusNoContent, nil, operations.deleteResource(ctx, t, id, c)
}

// target returns the type and the id that the path of an operation names; POST has no id.
func (run *bulkRun) target(o *bulkOperation) (*schema.ResourceType, string, error) {
	endpoint, id, hasID := strings.Cut(strings.TrimPrefix(o.path, "/"), "/")
	wantsID := o.method != http.MethodPost
	switch o.method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, "", scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].method: must be POST, PUT, PATCH or DELETE, not %s", o.index, scimerror.Quote(o.method))
	}
	t, err := run.x.typeByEndpoint("/" + endpoint)
	if err != nil || hasID != wantsID || strings.Contains(id, "/") || wantsID && id == "" {
		return nil, "", scimerror.Bad(scimerror.InvalidPath, "Operations[%d].path: %s must be the endpoint of a resource type, with an id unless the method is POST", o.index, scimerror.Quote(o.path))
	}
	if bulkID, ok := strings.CutPrefix(id, bulkIDPrefix); ok {
		id = run.ids[bulkID]
	}
	return t, id, nil
}

// finish adds resolved references to resources that were created without them.
func (run *bulkRun) finish(ctx context.Context) {
	unfinished := run.unfinished[:0]
	for _, o := range run.unfinished {
		if o.missing > 0 && run.pending(o) {
			unfinished = append(unfinished, o)
			continue
		}
		o.unfinished = false
		if o.missing > 0 {
			run.record(o, 0, nil, scimerror.New(http.StatusConflict, "bulkId:%s: no operation created it; the resource was created without it", run.firstMissing(o)))
			continue
		}
		t, _, err := run.target(o)
		if err != nil {
			run.record(o, 0, nil, err)
			continue
		}
		data, _ := resolve(o.data, run.ids, false).(map[string]any)
		r, err := run.x.operations().replaceResource(ctx, t, run.ids[o.bulkID], data, condition{})
		run.record(o, http.StatusCreated, r, err)
	}
	run.unfinished = unfinished
}
