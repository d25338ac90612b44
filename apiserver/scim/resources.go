package scim

import (
	"context"
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/patch"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// operations are the operations of RFC 7644 on single resources, without HTTP. The handlers and
// bulk share them.
type operations struct {
	store  Store
	quirks patch.Quirks
	// account is the account of the request, and long reports whether its body is long, so that the work on it needs a turn.
	account string
	long    bool
}

func (x *exchange) operations() operations {
	return operations{store: x.tenant.Store, quirks: x.profile.Quirks, account: x.tenant.Name, long: x.long}
}

// inTurn does work on the body of a request, in turns with that of other accounts if it is long. The work calls next between
// its steps, and ends if that returns false.
func (o operations) inTurn(ctx context.Context, work func(next func() bool) error) error {
	turn, err := fairsemaphore.Processors.BeginIf(ctx, o.long, o.account)
	if err != nil {
		return err
	}
	defer turn.End()
	if err := work(yielding(turn)); err != nil {
		return err
	}
	return ctx.Err()
}

// createResource stores a request body as a new resource (RFC 7644 section 3.3).
func (o operations) createResource(ctx context.Context, t *schema.ResourceType, body map[string]any) (*schema.Resource, error) {
	d, err := o.document(t, body)
	if err != nil {
		return nil, err
	}
	return o.store.CreateResource(ctx, t, d)
}

// replaceResource replaces a resource with a request body (RFC 7644 section 3.5.1).
func (o operations) replaceResource(ctx context.Context, t *schema.ResourceType, id string, body map[string]any, c condition) (*schema.Resource, error) {
	replacement, err := o.document(t, body)
	if err != nil {
		return nil, err
	}
	return o.store.ReplaceResource(ctx, t, id, func(r *schema.Resource) (schema.Document, error) {
		if err := c.check(r); err != nil {
			return nil, err
		}
		d := replacement.Clone()
		if err := t.Keep(r.Document, d); err != nil {
			return nil, err
		}
		return d, o.inTurn(ctx, func(next func() bool) error {
			for name, value := range r.Document {
				if set, ok := value.(schema.Set); ok {
					schema.Fill(set, d[name], next)
					d[name] = set
				}
			}
			return nil
		})
	})
}

// document normalizes and validates a request body.
func (o operations) document(t *schema.ResourceType, body map[string]any) (schema.Document, error) {
	d, err := t.Normalize(body, o.quirks.Leniency)
	if err != nil {
		return nil, err
	}
	return d, t.Validate(d)
}

// patchResource applies all PATCH operations to a resource, or none (RFC 7644 section 3.5.2).
func (o operations) patchResource(ctx context.Context, t *schema.ResourceType, id string, body map[string]any, c condition) (*schema.Resource, error) {
	changes, err := patch.ParseRequest(body, o.quirks)
	if err != nil {
		return nil, err
	}
	return o.store.ReplaceResource(ctx, t, id, func(r *schema.Resource) (schema.Document, error) {
		if err := c.check(r); err != nil {
			return nil, err
		}
		return r.Document, o.inTurn(ctx, func(func() bool) error { return patch.Apply(t, r.Document, changes, o.quirks) })
	})
}

// deleteResource deletes a resource (RFC 7644 section 3.6).
func (o operations) deleteResource(ctx context.Context, t *schema.ResourceType, id string, c condition) error {
	return o.store.DeleteResource(ctx, t, id, c.check)
}

// condition is the headers If-Match and If-None-Match of a write: the versions that the resource must and
// must not have (RFC 7644 section 3.14, RFC 9110 section 13). The zero condition is always met.
//
// Only the stored attributes count: a write does not change those that are derived from other resources, so a
// change of them, such as the new name of a member, does not reject it.
type condition struct{ match, noneMatch string }

func (c condition) check(r *schema.Resource) error {
	header := ""
	switch {
	case c.match != "" && !matches(c.match, r.Version, stored):
		header = "If-Match"
	case c.noneMatch != "" && matches(c.noneMatch, r.Version, stored):
		header = "If-None-Match"
	default:
		return nil
	}
	return scimerror.New(http.StatusPreconditionFailed, "%s: the current version of the resource is %s", header, r.ETag())
}

// matches reports whether a list of entity tags contains a version, or is "*". part returns the part of the
// opaque value of a tag that is compared.
func matches(list, version string, part func(tag string) string) bool {
	for tag := range strings.SplitSeq(list, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || part(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)) == version {
			return true
		}
	}
	return false
}

// stored returns the part of a version that a write could overwrite: Resource.Version.
func stored(tag string) string {
	version, _, _ := strings.Cut(tag, ".")
	return version
}

// whole returns the whole version.
func whole(tag string) string { return tag }
