// Package identity serves the families of the REST API that concern callers: API keys, users, groups and roles.
package identity

import (
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Catalog reads deployments by number.
type Catalog interface {
	// Deployments returns those of a namespace on which a principal holds a permission, or any if it is empty. They are
	// shared and must not be modified.
	Deployments(namespace string, p *auth.Principal, needed v1alpha1.Permission) ([]*v1alpha1.Deployment, error)
	// Find returns the deployment of a namespace with an id, or nil if there is none.
	Find(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error)
}

// Users changes users; *directory.Directory implements it.
type Users interface {
	// ChangeUser edits a ScimUser in one write and waits until the cache has it; edit.ErrDeleted if there is none.
	ChangeUser(ctx context.Context, namespace, name string, change func(*v1alpha1.ScimUser) error) (*v1alpha1.ScimUser, error)
}

// Options configure the group.
type Options struct {
	// Kube reads and writes objects.
	Kube *kube.Client
	// Catalog reads deployments.
	Catalog Catalog
	// Directory returns the users and groups of an account.
	Directory func(*v1alpha1.Account) Directory
	// Users assigns roles.
	Users Users
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Random is the source of keys; crypto/rand when nil.
	Random io.Reader
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	a := &api{o}
	return []rest.Family{a.apiKeysFamily(), a.usersFamily(), a.usersAdminFamily(), a.groupsFamily(), a.rolesFamily()}
}

// api has the handlers of the group.
type api struct{ Options }
