package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Directory is the users and groups of an account; *directory.Tenant implements it. REST changes them as SCIM does: the
// rules of names, owners and deactivation are those of the Store.
type Directory interface {
	scim.Store
	// ResourceTypes returns User and Group as the account declares them.
	ResourceTypes() []*schema.ResourceType
	// Numbered returns the ids of the resources of a type that have a number.
	Numbered(t *schema.ResourceType, number int64) []string
	// ConfirmOtherAdmin reports whether the account has an active administrator besides one, who is about to
	// be removed.
	ConfirmOtherAdmin(ctx context.Context, except string) (bool, error)
}

var _ Directory = (*directory.Tenant)(nil)

// people is the users or the groups of the account of a request.
type people struct {
	Directory
	kind *schema.ResourceType
}

// people returns the resources of a type, User or Group, of the account of a request.
func (a *api) people(ctx context.Context, name string) people {
	p := people{Directory: a.Directory(rest.ScopeFrom(ctx).Account)}
	for _, t := range p.ResourceTypes() {
		if t.Name == name {
			p.kind = t
		}
	}
	return p
}

func (a *api) users(ctx context.Context) people { return a.people(ctx, schema.User.Name) }

// id returns the id of the resource with a number.
func (p people) id(number int64) (string, error) {
	ids := p.Numbered(p.kind, number)
	switch len(ids) {
	case 0:
		return "", p.unknown(number)
	case 1:
		return ids[0], nil
	}
	// The ids are not secret: the caller may list them over SCIM.
	return "", rest.Conflict("%s %d is ambiguous: the objects %s have the same number; use SCIM or kubectl, or give one of them another name",
		strings.ToLower(p.kind.Name), number, strings.Join(ids, " and "))
}

func (p people) unknown(number int64) *rest.Problem {
	return rest.NotFound("%s %d does not exist", strings.ToLower(p.kind.Name), number)
}

// change changes the document of a resource in one write. It may be called again after a conflict.
func (p people) change(ctx context.Context, number int64, change func(id string, d schema.Document) error) (*schema.Resource, error) {
	id, err := p.id(number)
	if err != nil {
		return nil, err
	}
	r, err := p.ReplaceResource(ctx, p.kind, id, func(r *schema.Resource) (schema.Document, error) {
		return r.Document, change(id, r.Document)
	})
	return r, p.problem(err, number)
}

// list returns a page of resources, in the order of their creation, without what costs a lookup for each.
func (p people) list(ctx context.Context, page rest.CursorPage, without string) (*rest.List[*schema.Resource], error) {
	projection := &schema.Projection{Exclude: []schema.Ref{{Attribute: p.kind.Core.Attribute(without)}}}
	fetch := func(ctx context.Context, after *scim.Position, limit int) (rest.StoredPage[*schema.Resource], error) {
		found, err := p.ListResources(ctx, p.kind, &scim.Query{After: after, Count: limit, Projection: projection})
		if err != nil {
			return rest.StoredPage[*schema.Resource]{}, p.problem(err, 0)
		}
		return rest.StoredPage[*schema.Resource]{Items: found.Resources, HasNext: found.Next != nil, HasPrevious: after != nil}, nil
	}
	return rest.PaginateStored(ctx, page, fetch, position)
}

// position returns the position of a resource in the default order, which is by the time of creation in seconds.
func position(r *schema.Resource) scim.Position {
	return scim.PositionOf(r.Created.Truncate(time.Second), r.ID)
}

// shown converts the items of a list.
func shown[T any](of *rest.List[*schema.Resource], convert func(*schema.Resource) T) *rest.List[T] {
	out := &rest.List[T]{}
	out.Body.Items, out.Body.PageInfo = make([]T, len(of.Body.Items)), of.Body.PageInfo
	for i, r := range of.Body.Items {
		out.Body.Items[i] = convert(r)
	}
	out.Body.Data = out.Body.Items
	return out
}

// problem returns the REST error for a SCIM error: the same status, in terms of REST. number is that of the request; 0
// if it has none.
func (p people) problem(err error, number int64) error {
	var known *scimerror.Error
	switch {
	case !errors.As(err, &known):
		return err
	case known.Status == http.StatusNotFound && number != 0:
		return p.unknown(number)
	}
	return rest.NewProblem(known.Status, "%s", inTermsOfREST(known.Detail))
}

// fieldOf are the fields of requests by the SCIM attribute, or the field of the spec, that they change.
var fieldOf = []struct{ attribute, field string }{
	{"userName", "username"}, {"name.givenName", "firstName"}, {"name", "firstName"}, {"emails", "email"}, {"photos", "picture"},
	{"active", "isDeactivated"}, {"admin", "isAdmin"},
}

// inTermsOfREST replaces the attribute at the beginning of a message by the field of the request.
func inTermsOfREST(message string) string {
	attribute, rest, found := strings.Cut(message, ": ")
	if !found {
		return message
	}
	for _, f := range fieldOf {
		after, isBelow := strings.CutPrefix(attribute, f.attribute)
		if isBelow && (after == "" || strings.ContainsAny(after[:1], ".[")) {
			return f.field + ": " + rest
		}
	}
	return message
}

// textOf returns a text attribute of a document; empty if it has none.
func textOf(d schema.Document, name string) string {
	text, _ := d[name].(string)
	return text
}

// isAdmin and isActive report the state of a user.
func isAdmin(d schema.Document) bool {
	is, _ := d[directory.AttributeAdmin].(bool)
	return is
}

func isActive(d schema.Document) bool {
	active, given := d["active"].(bool)
	return active || !given
}

// settingsOf returns the settings of a user; nil if there are none. They are shared and must not be modified.
func settingsOf(d schema.Document) *v1alpha1.UserSettings {
	s, _ := d[directory.AttributeSettings].(*v1alpha1.UserSettings)
	return s
}
