// Package attributes serves the families of the REST API that concern user attributes: their definitions, which are
// UserAttribute objects, and their values, which are fields of ScimUsers.
package attributes

import (
	"context"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Directory reads and changes users.
type Directory interface {
	// FindUser returns a ScimUser by its number or its SCIM id; edit.ErrDeleted if there is none.
	FindUser(ctx context.Context, namespace, id string) (*v1alpha1.ScimUser, error)
	// ChangeUser edits a ScimUser in one write and waits until the cache has it; edit.ErrDeleted if there is none.
	ChangeUser(ctx context.Context, namespace, name string, change func(*v1alpha1.ScimUser) error) (*v1alpha1.ScimUser, error)
}

// Options configure the group.
type Options struct {
	// Kube reads and writes objects.
	Kube *kube.Client
	// Directory has the users.
	Directory Directory
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	a := &api{o}
	return []rest.Family{a.attributesFamily(), a.valuesFamily()}
}

// api has the handlers of the group.
type api struct{ Options }
