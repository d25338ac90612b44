// Package scim is a SCIM 2.0 service provider: the protocol of RFC 7644 and RFC 9865 over a Store,
// which keeps the resources. It knows nothing of Kubernetes.
//
// A request goes: Server (route, credential's profile, query, body) → schema (what was sent
// becomes a document) → patch, or nothing → Store (one write) → schema (the answer).
package scim

import (
	"context"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Store keeps the resources of one tenant. Its errors are *scimerror.Error where the caller is
// to blame, and are then shown.
type Store interface {
	// Create keeps a document as a new resource, whose id the store makes. A value that has to
	// be unique and belongs to another resource is a 409 uniqueness.
	Create(ctx context.Context, t *schema.ResourceType, d schema.Document) (*schema.Resource, error)

	// Get reads a resource, as fresh as what the last write of anybody left. Attributes that p
	// does not want may be left out. Its absence is a 404.
	Get(ctx context.Context, t *schema.ResourceType, id string, p *schema.Projection) (*schema.Resource, error)

	// Update reads a resource, has it changed and writes it, unless nothing has changed: then
	// version and lastModified stay. change gets a copy that it may alter, and returns the
	// document to keep; it is called anew when somebody else was faster. An error of change ends
	// it, and nothing is written. The resource is returned as it is then.
	Update(ctx context.Context, t *schema.ResourceType, id string, change func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error)

	// Delete removes a resource. check sees it before, and an error of it ends the matter.
	Delete(ctx context.Context, t *schema.ResourceType, id string, check func(*schema.Resource) error) error

	// Query finds resources. A store chooses candidates, by an index where it has one, and leaves
	// it to Query.Select to match, sort, count and cut the page.
	Query(ctx context.Context, t *schema.ResourceType, q *Query) (*Page, error)
}
