// Package directory keeps the resources of SCIM as Kubernetes objects: a User is a ScimUser, a
// Group a ScimGroup with its ScimMemberChunks, and the id is the object's name. It is the
// scim.Store. An object that somebody applied with kubectl is a resource like any other.
//
// What is read goes: look-up (by an index, a claim, or all in order) → item (an object seen through
// the table of its kind) → filter, page → resource. What is written goes: document → table → spec
// of the live object → one write.
//
// How fresh: what is asked for by id, or by a value that is unique, comes from the API server.
// Lists and other filters come from the informers' caches, and a write is answered when these show
// it, so that who asks the same replica again finds what it has written.
//
// What is no resource: objects that are being deleted, and those that lost their name to another
// one (Ready=False, NameTaken). They are in no list, and asking for them by id is a 404.
//
// A member of a group that names nothing that exists is kept, and not shown until it exists: Git
// applies in any order, and so do some clients. A user who is deleted is gone from all groups at
// once, because of that; the references are removed afterwards.
package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Options are what a Directory is made of.
type Options struct {
	// Users, Groups and Chunks follow ScimUsers, ScimGroups and ScimMemberChunks. They may run
	// already, and are to come from a cache with CacheOptions.
	Users, Groups, Chunks toolscache.SharedIndexInformer
	// Kube reads the API server and writes, as the field manager edit.Manager.
	Kube *kube.Client
	// Clock of this machine.
	Clock clock.Clock
}

// Directory serves all tenants of a process. It is safe for concurrent use.
type Directory struct {
	kube   *kube.Client
	clock  clock.Clock
	seen   *seen
	turns  *turns
	users  *collection[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec]
	groups *collection[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec]
	chunks toolscache.SharedIndexInformer

	mu sync.Mutex
	// tenants by the name of their account.
	tenants map[string]*Tenant
}

// New makes a Directory, and returns when it knows all that the informers know.
func New(ctx context.Context, o Options) (*Directory, error) {
	d, err := newDirectory(o)
	if err != nil {
		return nil, err
	}
	var followed []toolscache.InformerSynced
	for _, follow := range []func() (toolscache.ResourceEventHandlerRegistration, error){d.users.follow, d.groups.follow, d.followChunks} {
		registration, err := follow()
		if err != nil {
			return nil, fmt.Errorf("follow SCIM objects: %w", err)
		}
		followed = append(followed, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), followed...) {
		return nil, errors.Join(errors.New("the SCIM objects were not read"), ctx.Err())
	}
	return d, nil
}

// newDirectory makes one that follows nothing yet.
func newDirectory(o Options) (*Directory, error) {
	d := &Directory{
		kube: o.Kube, clock: o.Clock, chunks: o.Chunks, seen: newSeen(o.Clock), turns: newTurns(),
		tenants: map[string]*Tenant{},
	}
	d.users = newCollection(d, userKind(), o.Users)
	d.groups = newCollection(d, groupKind(), o.Groups)
	return d, addIndexes(o)
}

// Of is the part of an account. The account is not kept.
func (d *Directory) Of(account *v1alpha1.Account) *Tenant {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.tenants[account.Name]
	if known != nil && known.uid == account.UID && known.generation == account.Generation {
		return known
	}
	user, group := resourceTypes(account)
	t := &Tenant{
		d: d, uid: account.UID, generation: account.Generation,
		namespace: account.Spec.Namespace, user: user, group: group,
	}
	d.tenants[account.Name] = t
	return t
}

// Tenant is the part of a Directory that belongs to one account: the objects of its namespace.
type Tenant struct {
	d           *Directory
	uid         types.UID
	generation  int64
	namespace   string
	user, group *schema.ResourceType
}

var _ scim.Store = (*Tenant)(nil)

// ResourceTypes are User and Group with the extensions that the account declares. They are the same
// as long as the account's spec is: shared, not to be changed.
func (t *Tenant) ResourceTypes() []*schema.ResourceType {
	return []*schema.ResourceType{t.user, t.group}
}

// resources is what a kind of resources can do.
type resources interface {
	createResource(v *view, d schema.Document) (*schema.Resource, error)
	getResource(v *view, id string) (*schema.Resource, error)
	replaceResource(v *view, id string, change func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error)
	deleteResource(v *view, id string, check func(*schema.Resource) error) error
	listResources(v *view, q *scim.Query) (*scim.Page, error)
}

// of is a kind of resources, and how one request sees it.
func (t *Tenant) of(ctx context.Context, rt *schema.ResourceType, p *schema.Projection) (resources, *view) {
	v := &view{ctx: ctx, d: t.d, namespace: t.namespace, resourceType: rt, projection: p}
	if rt.Name == schema.Group.Name {
		return t.d.groups, v
	}
	return t.d.users, v
}

// CreateResource implements scim.Store.
func (t *Tenant) CreateResource(ctx context.Context, rt *schema.ResourceType, d schema.Document) (*schema.Resource, error) {
	kind, v := t.of(ctx, rt, nil)
	r, err := kind.createResource(v, d)
	return r, toSCIM(err)
}

// GetResource implements scim.Store.
func (t *Tenant) GetResource(ctx context.Context, rt *schema.ResourceType, id string, p *schema.Projection) (*schema.Resource, error) {
	kind, v := t.of(ctx, rt, p)
	r, err := kind.getResource(v, id)
	return r, toSCIM(err)
}

// ReplaceResource implements scim.Store.
func (t *Tenant) ReplaceResource(ctx context.Context, rt *schema.ResourceType, id string, change func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error) {
	kind, v := t.of(ctx, rt, nil)
	r, err := kind.replaceResource(v, id, change)
	return r, toSCIM(err)
}

// DeleteResource implements scim.Store.
func (t *Tenant) DeleteResource(ctx context.Context, rt *schema.ResourceType, id string, check func(*schema.Resource) error) error {
	kind, v := t.of(ctx, rt, nil)
	return toSCIM(kind.deleteResource(v, id, check))
}

// ListResources implements scim.Store.
func (t *Tenant) ListResources(ctx context.Context, rt *schema.ResourceType, q *scim.Query) (*scim.Page, error) {
	kind, v := t.of(ctx, rt, q.Projection)
	page, err := kind.listResources(v, q)
	return page, toSCIM(err)
}
