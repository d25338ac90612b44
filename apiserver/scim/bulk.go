package scim

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Limits of a bulk request, as /ServiceProviderConfig names them.
const (
	maxOperations = 1000
	maxPayload    = 1 << 20
)

// URNs of the messages (RFC 7644 section 3.7).
const (
	bulkRequestURN  = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
	bulkResponseURN = "urn:ietf:params:scim:api:messages:2.0:BulkResponse"
)

// bulkOperation is one operation of a bulk request.
type bulkOperation struct {
	index                         int
	method, path, bulkID, version string
	data                          map[string]any
	// references are the bulkIds that path and data refer to.
	references []string
	result     *bulkResult
}

// bulkResult is how an operation ended.
type bulkResult struct {
	Method   string          `json:"method"`
	BulkID   string          `json:"bulkId,omitempty"`
	Version  string          `json:"version,omitempty"`
	Location string          `json:"location,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
	Status   string          `json:"status"`
}

// bulk does many operations in one request. Each is done as if it had come alone; those that
// refer to what another one creates wait for it (RFC 7644 section 3.7).
func (x *exchange) bulk() error {
	body, err := x.body()
	if err != nil {
		return err
	}
	operations, failOnErrors, err := parseBulk(body)
	if err != nil {
		return err
	}
	run := &bulkRun{x: x, operations: operations, failOnErrors: failOnErrors, ids: map[string]string{}, creations: map[string]*bulkOperation{}}
	for _, o := range operations {
		if o.method == http.MethodPost {
			run.creations[o.bulkID] = o
		}
	}
	if err := run.all(x.Context()); err != nil {
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

// bulkRun does the operations of one request.
type bulkRun struct {
	x            *exchange
	operations   []*bulkOperation
	failOnErrors int
	errors       int
	// creations are the operations that create what a bulkId stands for.
	creations map[string]*bulkOperation
	// ids of the resources that operations have created, by bulkId.
	ids map[string]string
	// unfinished are resources that were created without references to what came later.
	unfinished []*bulkOperation
}

// all does the operations in an order in which what one refers to is there: that of the request
// as far as possible. Where they refer to each other in a circle, one is created without the
// references, which are added when they exist.
func (run *bulkRun) all(ctx context.Context) error {
	for !run.stopped() {
		o, whole := run.next()
		if o == nil {
			break
		}
		if wait := run.x.caller.Wait; wait != nil && o.index > 0 {
			if err := wait(ctx); err != nil {
				return err
			}
		}
		run.do(ctx, o, whole)
		run.finish(ctx)
	}
	return ctx.Err()
}

func (run *bulkRun) stopped() bool {
	return run.failOnErrors > 0 && run.errors >= run.failOnErrors
}

// next is the first operation whose references are all known, or else the first creation, which
// then is not whole; what still waits for something that will never be is done to fail.
func (run *bulkRun) next() (*bulkOperation, bool) {
	var creation, any *bulkOperation
	for _, o := range run.operations {
		switch {
		case o.result != nil:
			continue
		case len(run.missing(o)) == 0:
			return o, true
		case creation == nil && o.method == http.MethodPost && run.pending(o):
			creation = o
		}
		if any == nil {
			any = o
		}
	}
	if creation != nil {
		return creation, false
	}
	return any, true
}

// missing are the bulkIds that an operation refers to and that have no id yet.
func (run *bulkRun) missing(o *bulkOperation) []string {
	var missing []string
	for _, id := range o.references {
		if _, ok := run.ids[id]; !ok {
			missing = append(missing, id)
		}
	}
	return missing
}

// pending tells whether all that an operation misses is still to be created.
func (run *bulkRun) pending(o *bulkOperation) bool {
	for _, id := range run.missing(o) {
		if o := run.creations[id]; o == nil || o.result != nil {
			return false
		}
	}
	return true
}

// do does one operation and notes how it ended.
func (run *bulkRun) do(ctx context.Context, o *bulkOperation, whole bool) {
	o.result = &bulkResult{Method: o.method, BulkID: o.bulkID}
	status, r, err := run.perform(ctx, o, whole)
	if err == nil && !whole {
		run.unfinished = append(run.unfinished, o)
	}
	run.note(o, status, r, err)
}

func (run *bulkRun) note(o *bulkOperation, status int, r *schema.Resource, err error) {
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

func (run *bulkRun) perform(ctx context.Context, o *bulkOperation, whole bool) (int, *schema.Resource, error) {
	if whole {
		if missing := run.missing(o); len(missing) > 0 {
			return 0, nil, scimerror.New(http.StatusConflict, "bulkId:%s: no operation has created it", clipID(missing[0]))
		}
	}
	t, id, err := run.target(o)
	if err != nil {
		return 0, nil, err
	}
	if id != "" {
		o.result.Location = run.x.locate(t.Name, id) // of what failed, too (RFC 7644 section 3.7.3)
	}
	if o.data == nil && o.method != http.MethodDelete {
		return 0, nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].data: is required", o.index)
	}
	data, _ := resolve(o.data, run.ids, !whole).(map[string]any)
	x, c := run.x, condition(o.version)
	switch o.method {
	case http.MethodPost:
		r, err := x.createResource(ctx, t, data)
		return http.StatusCreated, r, err
	case http.MethodPut:
		r, err := x.replaceResource(ctx, t, id, data, c)
		return http.StatusOK, r, err
	case http.MethodPatch:
		r, err := x.patchResource(ctx, t, id, data, c)
		return http.StatusOK, r, err
	}
	return http.StatusNoContent, nil, x.deleteResource(ctx, t, id, c)
}

// target is what the path of an operation names.
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

// finish gives what was created without its references those that are known by now.
func (run *bulkRun) finish(ctx context.Context) {
	var still []*bulkOperation
	for _, o := range run.unfinished {
		missing := run.missing(o)
		if len(missing) > 0 && run.pending(o) {
			still = append(still, o)
			continue
		}
		if len(missing) > 0 {
			run.note(o, 0, nil, scimerror.New(http.StatusConflict, "bulkId:%s: no operation has created it; the resource exists without it", clipID(missing[0])))
			continue
		}
		t, _, err := run.target(o)
		if err != nil {
			run.note(o, 0, nil, err)
			continue
		}
		data, _ := resolve(o.data, run.ids, false).(map[string]any)
		r, err := run.x.replaceResource(ctx, t, run.ids[o.bulkID], data, "")
		run.note(o, http.StatusCreated, r, err)
	}
	run.unfinished = still
}
