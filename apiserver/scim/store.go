// Package scim is a SCIM 2.0 service provider: the protocol of RFC 7644 and RFC 9865 over a Store
// of resources. It does not depend on Kubernetes.
//
// A request passes through Server (route, client profile, query, body), schema (normalizes the
// body to a document), patch (PATCH only), Store (one write) and schema again (renders the
// response). Handlers, operations and Store name their methods after the operations of RFC 7644:
// createResource, getResource, replaceResource, patchResource, deleteResource, listResources,
// searchResources and bulk.
package scim

import (
	"context"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Store keeps the resources of one tenant. An error that the client can correct is a
// *scimerror.Error, and its detail is returned to the client.
type Store interface {
	// CreateResource stores a document as a new resource, with an id that the store generates. It
	// returns a 409 uniqueness error if a unique value belongs to another resource.
	CreateResource(ctx context.Context, t *schema.ResourceType, d schema.Document) (*schema.Resource, error)

	// GetResource returns a resource with all writes acknowledged so far, by any replica, or a 404
	// error. It may omit attributes that p does not select.
	GetResource(ctx context.Context, t *schema.ResourceType, id string, p *schema.Projection) (*schema.Resource, error)

	// ReplaceResource replaces the document of a resource with the one that replace returns, for
	// PUT and for PATCH. replace receives a copy of the resource, which it may modify, and is
	// called again after a write conflict. If it returns an error, nothing is written and that
	// error is returned. If the document is unchanged, version and lastModified are unchanged too.
	ReplaceResource(ctx context.Context, t *schema.ResourceType, id string, replace func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error)

	// DeleteResource deletes a resource unless check returns an error for it.
	DeleteResource(ctx context.Context, t *schema.ResourceType, id string, check func(*schema.Resource) error) error

	// ListResources returns the resources that match a query. A store selects candidates, by an
	// index if it has one, and calls Query.Select to match, sort, count and paginate them.
	ListResources(ctx context.Context, t *schema.ResourceType, q *Query) (*Page, error)
}
