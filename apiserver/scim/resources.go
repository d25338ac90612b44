package scim

import (
	"context"
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/patch"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// What is done to a resource, without HTTP: bulk operations do the same.

// createResource keeps what a client sent as a new resource (RFC 7644 section 3.3).
func (x *exchange) createResource(ctx context.Context, t *schema.ResourceType, body map[string]any) (*schema.Resource, error) {
	d, err := t.Normalize(body, x.profile.Quirks.Leniency)
	if err != nil {
		return nil, err
	}
	if err := t.Validate(d); err != nil {
		return nil, err
	}
	return x.tenant.Store.Create(ctx, t, d)
}

// replaceResource makes a resource what a client sent (RFC 7644 section 3.5.1).
func (x *exchange) replaceResource(ctx context.Context, t *schema.ResourceType, id string, body map[string]any, c condition) (*schema.Resource, error) {
	wanted, err := t.Normalize(body, x.profile.Quirks.Leniency)
	if err != nil {
		return nil, err
	}
	if err := t.Validate(wanted); err != nil {
		return nil, err
	}
	return x.tenant.Store.Update(ctx, t, id, func(r *schema.Resource) (schema.Document, error) {
		if err := c.check(r); err != nil {
			return nil, err
		}
		d := wanted.Clone()
		if err := t.KeepImmutable(r.Document, d); err != nil {
			return nil, err
		}
		for name, value := range r.Document {
			if set, ok := value.(schema.Set); ok {
				elements, _ := d[name].([]any)
				schema.Fill(set, elements)
				d[name] = set
			}
		}
		return d, nil
	})
}

// patchResource applies operations to a resource: all of them or none (RFC 7644 section 3.5.2).
func (x *exchange) patchResource(ctx context.Context, t *schema.ResourceType, id string, body map[string]any, c condition) (*schema.Resource, error) {
	operations, err := patch.ParseRequest(body, x.profile.Quirks)
	if err != nil {
		return nil, err
	}
	return x.tenant.Store.Update(ctx, t, id, func(r *schema.Resource) (schema.Document, error) {
		if err := c.check(r); err != nil {
			return nil, err
		}
		return r.Document, patch.Apply(t, r.Document, operations, x.profile.Quirks)
	})
}

// deleteResource removes a resource (RFC 7644 section 3.6).
func (x *exchange) deleteResource(ctx context.Context, t *schema.ResourceType, id string, c condition) error {
	return x.tenant.Store.Delete(ctx, t, id, c.check)
}

// condition is the If-Match of a request: versions of which the resource must have one (RFC 7644
// section 3.14). The empty condition always holds.
type condition string

func (c condition) check(r *schema.Resource) error {
	if c == "" || matchesVersion(string(c), r) {
		return nil
	}
	return scimerror.New(http.StatusPreconditionFailed, "If-Match: the resource has the version %s now", r.ETag())
}

// matchesVersion tells whether a list of entity tags has that of a resource, or is "*".
func matchesVersion(list string, r *schema.Resource) bool {
	for tag := range strings.SplitSeq(list, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(r.ETag(), "W/") {
			return true
		}
	}
	return false
}

// sent is what a request that writes a resource says: what to answer, and the body.
func (x *exchange) sent(t *schema.ResourceType) (*schema.Projection, map[string]any, error) {
	p, err := x.projection(t)
	if err != nil {
		return nil, nil, err
	}
	body, err := x.body()
	return p, body, err
}

// The routes of resources.

func (x *exchange) create() error {
	t, err := x.resourceType()
	if err != nil {
		return err
	}
	p, body, err := x.sent(t)
	if err != nil {
		return err
	}
	r, err := x.createResource(x.Context(), t, body)
	if err != nil {
		return err
	}
	return x.writeResource(http.StatusCreated, r, p)
}

func (x *exchange) get() error { return x.onResource((*exchange).getResource) }

func (x *exchange) replace() error { return x.onResource((*exchange).putResource) }

func (x *exchange) patch() error { return x.onResource((*exchange).modifyResource) }

func (x *exchange) delete() error { return x.onResource((*exchange).removeResource) }

func (x *exchange) onResource(act func(*exchange, *schema.ResourceType, string) error) error {
	t, err := x.resourceType()
	if err != nil {
		return err
	}
	return act(x, t, x.PathValue("id"))
}

func (x *exchange) getResource(t *schema.ResourceType, id string) error {
	p, err := x.projection(t)
	if err != nil {
		return err
	}
	r, err := x.tenant.Store.Get(x.Context(), t, id, p)
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

func (x *exchange) ifMatch() condition { return condition(x.Request.Header.Get("If-Match")) }

func (x *exchange) putResource(t *schema.ResourceType, id string) error {
	p, body, err := x.sent(t)
	if err != nil {
		return err
	}
	r, err := x.replaceResource(x.Context(), t, id, body, x.ifMatch())
	if err != nil {
		return err
	}
	return x.writeResource(http.StatusOK, r, p)
}

func (x *exchange) modifyResource(t *schema.ResourceType, id string) error {
	p, body, err := x.sent(t)
	if err != nil {
		return err
	}
	r, err := x.patchResource(x.Context(), t, id, body, x.ifMatch())
	if err != nil {
		return err
	}
	if !x.profile.answersPatch(r, p != nil) {
		x.Header().Set("ETag", r.ETag())
		x.WriteHeader(http.StatusNoContent)
		return nil
	}
	return x.writeResource(http.StatusOK, r, p)
}

func (x *exchange) removeResource(t *schema.ResourceType, id string) error {
	if err := x.deleteResource(x.Context(), t, id, x.ifMatch()); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// /Me is the caller's own user (RFC 7644 section 3.11).

func (x *exchange) getMe() error { return x.onMe((*exchange).getResource) }

func (x *exchange) replaceMe() error { return x.onMe((*exchange).putResource) }

func (x *exchange) patchMe() error { return x.onMe((*exchange).modifyResource) }

func (x *exchange) deleteMe() error { return x.onMe((*exchange).removeResource) }

func (x *exchange) onMe(act func(*exchange, *schema.ResourceType, string) error) error {
	if x.caller.User == "" {
		return scimerror.New(http.StatusNotFound, "the credential does not belong to a user")
	}
	t, err := x.typeByEndpoint(schema.User.Endpoint)
	if err != nil {
		return err
	}
	x.Header().Set("Content-Location", x.locate(t.Name, x.caller.User))
	return act(x, t, x.caller.User)
}
