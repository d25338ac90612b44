package scim

import (
	"net/http"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// target returns the type and the id of the resource that the path names. /Me is the caller's own
// user (RFC 7644 section 3.11).
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
	x.Header().Set("Content-Location", x.locate(t.Name, x.caller.User))
	return t, x.caller.User, nil
}

// projectionAndBody reads what a write request contains: the attributes to return, and the body.
func (x *exchange) projectionAndBody(t *schema.ResourceType) (*schema.Projection, map[string]any, error) {
	p, err := x.projection(t)
	if err != nil {
		return nil, nil, err
	}
	body, err := x.body()
	return p, body, err
}

func (x *exchange) ifMatch() condition { return condition(x.Request.Header.Get("If-Match")) }

func (x *exchange) createResource() error {
	t, err := x.resourceType()
	if err != nil {
		return err
	}
	p, body, err := x.projectionAndBody(t)
	if err != nil {
		return err
	}
	r, err := x.operations().createResource(x.Context(), t, body)
	if err != nil {
		return err
	}
	return x.writeResource(http.StatusCreated, r, p)
}

func (x *exchange) getResource() error {
	t, id, err := x.target()
	if err != nil {
		return err
	}
	p, err := x.projection(t)
	if err != nil {
		return err
	}
	r, err := x.tenant.Store.GetResource(x.Context(), t, id, p)
	if err != nil {
		return err
	}
	if known := x.Request.Header.Get("If-None-Match"); known != "" && matchesVersion(known, r) {
		x.Header().Set("ETag", r.ETag())
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	return x.writeResource(http.StatusOK, r, p)
}

func (x *exchange) replaceResource() error {
	t, id, err := x.target()
	if err != nil {
		return err
	}
	p, body, err := x.projectionAndBody(t)
	if err != nil {
		return err
	}
	r, err := x.operations().replaceResource(x.Context(), t, id, body, x.ifMatch())
	if err != nil {
		return err
	}
	return x.writeResource(http.StatusOK, r, p)
}

func (x *exchange) patchResource() error {
	t, id, err := x.target()
	if err != nil {
		return err
	}
	p, body, err := x.projectionAndBody(t)
	if err != nil {
		return err
	}
	r, err := x.operations().patchResource(x.Context(), t, id, body, x.ifMatch())
	if err != nil {
		return err
	}
	if !x.profile.returnsPatched(r, p != nil) {
		x.Header().Set("ETag", r.ETag())
		x.WriteHeader(http.StatusNoContent)
		return nil
	}
	return x.writeResource(http.StatusOK, r, p)
}

func (x *exchange) deleteResource() error {
	t, id, err := x.target()
	if err != nil {
		return err
	}
	if err := x.operations().deleteResource(x.Context(), t, id, x.ifMatch()); err != nil {
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

func (x *exchange) listResources() error {
	types, err := x.listedTypes()
	if err != nil {
		return err
	}
	l, err := x.listQuery()
	if err != nil {
		return err
	}
	return x.writeList(l, types)
}

func (x *exchange) searchResources() error {
	types, err := x.listedTypes()
	if err != nil {
		return err
	}
	l, err := x.searchRequest()
	if err != nil {
		return err
	}
	return x.writeList(l, types)
}
