package scim

import (
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// target returns the type and the id of the resource that the path names; the id is empty if the
// path names only a type. /Me is the caller's own user (RFC 7644 section 3.11).
func (x *exchange) target() (*schema.ResourceType, string, error) {
	if x.PathValue("type") != "" {
		t, err := x.resourceType()
		return t, x.PathValue("id"), err
	}
	if x.caller.User == "" {
		return nil, "", scimerror.New(http.StatusNotFound, "the credential does not belong to a user")
	}
	t, err := x.typeByEndpoint(schema.User.Endpoint)
	if err != nil {
		return nil, "", err
	}
	location := x.locate(t.Name, x.caller.User)
	x.Header().Set("Location", location)
	x.Header().Set("Content-Location", location)
	return t, x.caller.User, nil
}

// resourceRequest is a request for one resource.
type resourceRequest struct {
	resourceType *schema.ResourceType
	// id is empty if the resource is created.
	id string
	// projection are the attributes to return.
	projection *schema.Projection
	// body is nil for a read.
	body map[string]any
}

// readRequest reads a request without a body.
func (x *exchange) readRequest() (*resourceRequest, error) {
	t, id, err := x.target()
	if err != nil {
		return nil, err
	}
	p, err := x.projection(t)
	return &resourceRequest{resourceType: t, id: id, projection: p}, err
}

// writeRequest reads a request with a body.
func (x *exchange) writeRequest() (*resourceRequest, error) {
	q, err := x.readRequest()
	if err != nil {
		return nil, err
	}
	q.body, err = x.body()
	return q, err
}

// condition returns the condition of a write. A header that is repeated is one list (RFC 9110 section 5.2).
func (x *exchange) condition() condition {
	return condition{match: x.joined("If-Match"), noneMatch: x.joined("If-None-Match")}
}

func (x *exchange) joined(header string) string {
	return strings.Join(x.Request.Header.Values(header), ",")
}

func (x *exchange) createResource() error {
	q, err := x.writeRequest()
	if err != nil {
		return err
	}
	r, err := x.operations().createResource(x.Context(), q.resourceType, q.body)
	if err != nil {
		return err
	}
	return x.writeResource(http.StatusCreated, r, q.projection)
}

func (x *exchange) getResource() error {
	q, err := x.readRequest()
	if err != nil {
		return err
	}
	r, err := x.tenant.Store.GetResource(x.Context(), q.resourceType, q.id, q.projection)
	if err != nil {
		return err
	}
	if known := x.joined("If-None-Match"); known != "" && matches(known, strings.Trim(strings.TrimPrefix(r.ETag(), "W/"), `"`), whole) {
		x.Header().Set("ETag", r.ETag())
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	return x.writeResource(http.StatusOK, r, q.projection)
}

func (x *exchange) replaceResource() error {
	q, err := x.writeRequest()
	if err != nil {
		return err
	}
	r, err := x.operations().replaceResource(x.Context(), q.resourceType, q.id, q.body, x.condition())
	if err != nil {
		return err
	}
	return x.writeResource(http.StatusOK, r, q.projection)
}

func (x *exchange) patchResource() error {
	q, err := x.writeRequest()
	if err != nil {
		return err
	}
	r, err := x.operations().patchResource(x.Context(), q.resourceType, q.id, q.body, x.condition())
	if err != nil {
		return err
	}
	if !x.profile.returnsPatched(r, q.projection != nil) {
		x.Header().Set("ETag", r.ETag())
		x.WriteHeader(http.StatusNoContent)
		return nil
	}
	return x.writeResource(http.StatusOK, r, q.projection)
}

func (x *exchange) deleteResource() error {
	t, id, err := x.target()
	if err != nil {
		return err
	}
	if err := x.operations().deleteResource(x.Context(), t, id, x.condition()); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// listedTypes returns the resource types that the path lists: one, or all at the base path.
func (x *exchange) listedTypes() ([]*schema.ResourceType, error) {
	if x.PathValue("type") == "" {
		return x.tenant.Types, nil
	}
	t, err := x.resourceType()
	return []*schema.ResourceType{t}, err
}

func (x *exchange) listResources() error { return x.list(x.listQuery) }

func (x *exchange) searchResources() error { return x.list(x.searchRequest) }

func (x *exchange) list(read func() (*listRequest, error)) error {
	types, err := x.listedTypes()
	if err != nil {
		return err
	}
	l, err := read()
	if err != nil {
		return err
	}
	return x.writeList(l, types)
}
