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

func parseBulk(body map[string]any) ([]*bulkOperation, int, error) {
	var list []any
	failOnErrors := 0
	named := false
	for name, value := range body {
		switch strings.ToLower(name) {
		case "schemas":
			if err := checkMessage(value, bulkRequestURN); err != nil {
				return nil, 0, err
			}
			named = true
		case "failonerrors":
			n, err := positive(value)
			if err != nil {
				return nil, 0, scimerror.Bad(scimerror.InvalidValue, "failOnErrors: must be an integer from 1")
			}
			failOnErrors = n
		case "operations":
			list, _ = value.([]any)
		default:
			return nil, 0, scimerror.Bad(scimerror.InvalidSyntax, "%s is not part of a bulk request", scimerror.Quote(name))
		}
	}
	switch {
	case !named:
		return nil, 0, scimerror.Bad(scimerror.InvalidSyntax, "schemas: must be [%q]", bulkRequestURN)
	case len(list) == 0:
		return nil, 0, scimerror.Bad(scimerror.InvalidSyntax, "Operations: must be a list of one operation or more")
	case len(list) > maxOperations:
		return nil, 0, scimerror.New(http.StatusRequestEntityTooLarge, "Operations: %d of them; at most %d are taken", len(list), maxOperations)
	}
	operations := make([]*bulkOperation, len(list))
	seen := map[string]bool{}
	for i, item := range list {
		o, err := parseOperation(i, item)
		if err != nil {
			return nil, 0, err
		}
		if o.bulkID != "" && seen[o.bulkID] {
			return nil, 0, scimerror.Bad(scimerror.InvalidValue, "Operations[%d].bulkId: %s is there twice", i, scimerror.Quote(o.bulkID))
		}
		seen[o.bulkID] = true
		o.references = references(o)
		operations[i] = o
	}
	return operations, failOnErrors, nil
}

func positive(value any) (int, error) {
	number, _ := value.(json.Number)
	n, err := strconv.Atoi(number.String())
	if err == nil && n < 1 {
		err = strconv.ErrRange
	}
	return n, err
}

func parseOperation(i int, item any) (*bulkOperation, error) {
	o := &bulkOperation{index: i}
	members, ok := item.(map[string]any)
	if !ok {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d]: must be an object", i)
	}
	for name, value := range members {
		var to *string
		switch strings.ToLower(name) {
		case "method":
			to = &o.method
		case "path":
			to = &o.path
		case "bulkid":
			to = &o.bulkID
		case "version":
			to = &o.version
		case "data":
			if o.data, ok = value.(map[string]any); !ok && value != nil {
				return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].data: must be an object", i)
			}
			continue
		default:
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d]: %s is not part of an operation", i, scimerror.Quote(name))
		}
		if *to, ok = value.(string); !ok && value != nil {
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].%s: must be a string", i, name)
		}
	}
	o.method = strings.ToUpper(o.method)
	if o.method == http.MethodPost && o.bulkID == "" {
		return nil, scimerror.Bad(scimerror.InvalidSyntax, "Operations[%d].bulkId: is required for POST", i)
	}
	return o, nil
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

// bulkIDPrefix begins a reference to what another operation creates.
const bulkIDPrefix = "bulkId:"

func clipID(id string) string { return strings.Trim(scimerror.Quote(id), `"`) }

// references are the bulkIds that an operation's path and data refer to.
func references(o *bulkOperation) []string {
	var found []string
	if _, id, ok := strings.Cut(o.path, "/"+bulkIDPrefix); ok {
		found = append(found, id)
	}
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case string:
			if id, ok := strings.CutPrefix(value, bulkIDPrefix); ok {
				found = append(found, id)
			}
		case []any:
			for _, item := range value {
				walk(item)
			}
		case map[string]any:
			for _, item := range value {
				walk(item)
			}
		}
	}
	walk(o.data)
	return found
}

// resolve copies data with ids in place of references. What refers to something that has no id
// yet is left out when drop says so: an element of a list, a member of an object.
func resolve(value any, ids map[string]string, drop bool) any {
	switch value := value.(type) {
	case string:
		bulkID, ok := strings.CutPrefix(value, bulkIDPrefix)
		if !ok {
			return value
		}
		if id, known := ids[bulkID]; known {
			return id
		}
		if drop {
			return nil
		}
		return value
	case []any:
		list := make([]any, 0, len(value))
		for _, item := range value {
			if resolved := resolve(item, ids, drop); resolved != nil {
				list = append(list, resolved)
			}
		}
		return list
	case map[string]any:
		copied := make(map[string]any, len(value))
		for name, item := range value {
			resolved := resolve(item, ids, drop)
			if resolved == nil && item != nil && strings.EqualFold(name, "value") {
				return nil // an element is nothing without its value
			}
			copied[name] = resolved
		}
		return copied
	}
	return value
}
