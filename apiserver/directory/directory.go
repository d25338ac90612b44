// Package directory stores SCIM resources as Kubernetes objects and implements scim.Store: a User is a
// ScimUser, a Group is a ScimGroup with its ScimMemberChunks, and the id is the object's name. Objects
// applied with kubectl are resources like all others.
//
// A read passes through lookup (by index, by claim, or all in order), item (an object seen through the
// attribute table of its kind), filter and page, and resource. A write passes through document,
// attribute table, spec of the live object, and one write.
//
// Consistency: reads by id or by a unique value come from the API server. Lists and other filters come
// from the informer caches. A write is acknowledged when the caches of this replica have it, so a client
// reads its own writes from the same replica.
//
// Objects that are being deleted, and objects that lost their name to another one (Ready=False,
// NameTaken), are not resources: lists omit them and reads by id return 404.
//
// A member that refers to nothing is stored, and becomes visible when its user or group exists, because
// GitOps tools and some clients create objects in any order. So a deleted user disappears from all groups
// at once; the references are removed afterwards.
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
	"github.com/quoin-dev/quoin/apiserver/directory/attribute"
	"github.com/quoin-dev/quoin/apiserver/directory/extension"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/fold"
	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/keyedmutex"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Options are the dependencies of a Directory.
type Options struct {
	// Users, Groups, Chunks and Attributes are informers of ScimUsers, ScimGroups, ScimMemberChunks and UserAttributes,
	// from a cache with CacheOptions. They may be running.
	Users, Groups, Chunks, Attributes toolscache.SharedIndexInformer
	// Kube reads from and writes to the API server with the field manager edit.Manager.
	Kube *kube.Client
	// Clock is the clock for timeouts and reservations.
	Clock clock.Clock
}

// Directory serves all tenants of a process. It is safe for concurrent use.
type Directory struct {
	kube    *kube.Client
	clock   clock.Clock
	tracker *freshness.Tracker
	// locks serialize the changes of one object in this process. They are an optimization: a write fails if the object has
	// changed, but with many concurrent changes of one group most of them would conflict again and again.
	locks  keyedmutex.Mutex[freshness.ID]
	users  *collection[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec]
	groups *collection[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec]
	chunks *membership.Chunks
	shown  shownChunks
	// attributes are the user attributes of all accounts.
	attributes *attribute.Definitions

	mu sync.Mutex
	// tenants are the tenants by account name.
	tenants map[string]*Tenant
}

// New returns a Directory when it has processed the initial lists of the informers.
func New(ctx context.Context, o Options) (*Directory, error) {
	d, err := newDirectory(o)
	if err != nil {
		return nil, err
	}
	followed := []toolscache.InformerSynced{o.Attributes.HasSynced}
	for _, follow := range []func() (toolscache.ResourceEventHandlerRegistration, error){d.users.follow, d.groups.follow, d.followChunks} {
		registration, err := follow()
		if err != nil {
			return nil, fmt.Errorf("follow SCIM objects: %w", err)
		}
		followed = append(followed, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), followed...) {
		return nil, errors.Join(errors.New("the caches of SCIM objects did not sync"), ctx.Err())
	}
	return d, nil
}

// newDirectory returns a Directory without event handlers.
func newDirectory(o Options) (*Directory, error) {
	d := &Directory{
		kube: o.Kube, clock: o.Clock, tracker: freshness.New(o.Clock),
		tenants: map[string]*Tenant{}, shown: shownChunks{digests: map[string]*shownChunk{}},
	}
	var err error
	if d.attributes, err = attribute.NewDefinitions(o.Attributes); err != nil {
		return nil, err
	}
	d.chunks = membership.NewChunks(&membership.Chunks{
		Informer: o.Chunks, Kube: o.Kube, Clock: o.Clock,
		Expect: func(namespace, name string) membership.Expectation {
			return chunkExpectation{d.tracker.Expect(d.chunkID(namespace, name))}
		},
	})
	d.users = newCollection(d, userKind(), o.Users)
	d.groups = newCollection(d, groupKind(), o.Groups)
	return d, addIndexes(o)
}

// Of returns the tenant of an account. It does not retain the account.
func (d *Directory) Of(account *v1alpha1.Account) *Tenant {
	d.mu.Lock()
	defer d.mu.Unlock()
	cached := d.tenants[account.Name]
	attributes := d.attributes.Of(account.Spec.Namespace)
	if cached != nil && cached.uid == account.UID && cached.generation == account.Generation && cached.attributes == attributes {
		return cached
	}
	user, group := extension.ResourceTypes(account)
	user = attribute.Extend(user, attributes.Attributes)
	t := &Tenant{
		d: d, account: account.Name, uid: account.UID, generation: account.Generation,
		namespace: account.Spec.Namespace, user: user, group: group, attributes: attributes,
	}
	d.tenants[account.Name] = t
	return t
}

// UsersNamed implements auth.Users, from the cache.
func (d *Directory) UsersNamed(namespace, userName string) []*v1alpha1.ScimUser {
	return d.users.byUniqueValue.find(namespace, fold.Case(userName))
}

// UsersFreed implements auth.Users, from the cache.
func (d *Directory) UsersFreed(namespace string) uint64 { return d.users.freed.of(namespace) }

// Tenant is the resources of one account: the objects in its namespace. It implements scim.Store.
type Tenant struct {
	d           *Directory
	account     string
	uid         types.UID
	generation  int64
	namespace   string
	user, group *schema.ResourceType
	attributes  *attribute.Set
}

var _ scim.Store = (*Tenant)(nil)

// ResourceTypes returns User and Group with the extensions that the account declares, and its user attributes. They are shared
// and must not be modified; they are identical until the spec of the account or its user attributes change.
func (t *Tenant) ResourceTypes() []*schema.ResourceType {
	return []*schema.ResourceType{t.user, t.group}
}

// resources is the operations on one kind of resources.
type resources interface {
	createResource(v *view, d schema.Document) (*schema.Resource, error)
	getResource(v *view, id string) (*schema.Resource, error)
	replaceResource(v *view, id string, replace func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error)
	deleteResource(v *view, id string, check func(*schema.Resource) error) error
	listResources(v *view, q *scim.Query) (*scim.Page, error)
}

// of returns the resources of a type and the view of one request.
func (t *Tenant) of(ctx context.Context, rt *schema.ResourceType, p *schema.Projection) (resources, *view) {
	v := t.d.view(ctx, t.namespace, rt, p)
	v.account = t.account
	if rt.Name == schema.Group.Name {
		return t.d.groups, v
	}
	return t.d.users, v
}

// Numbered returns the ids of the resources of a type that have a number, from the cache. There is at most one,
// except for two ids with the same hash: see package number.
func (t *Tenant) Numbered(rt *schema.ResourceType, n int64) []string {
	if rt.Name == schema.Group.Name {
		return t.d.groups.numbered(t.namespace, n)
	}
	return t.d.users.numbered(t.namespace, n)
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
func (t *Tenant) ReplaceResource(ctx context.Context, rt *schema.ResourceType, id string, replace func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error) {
	kind, v := t.of(ctx, rt, nil)
	r, err := kind.replaceResource(v, id, replace)
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
