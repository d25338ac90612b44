package directory

import (
	"context"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/extension"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/directory/valueindex"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// kind is the differences between Users and Groups; all other code is shared.
type kind[T v1alpha1.Object, S any] struct {
	// name is the name of the resource type.
	name string
	// table maps the fields of the spec, except extensions that accounts declare.
	table      *table[S]
	spec       func(T) *S
	extensions func(*S) *[]v1alpha1.ScimExtension
	// uniqueName is the name of the unique attribute, and unique manages the claims on it.
	uniqueName string
	unique     claims.Attribute[T]
	// setDefaults sets defaults of a new object; may be nil.
	setDefaults func(T)
	// store writes attributes that are stored in other objects and refers to them in the spec; may be
	// nil. name is the name of the object.
	store func(v *view, name string, s *S, d schema.Document) error
	// beforeUpdate is called before an edited object is written, and may change it; may be nil.
	beforeUpdate func(v *view, live, edited T) error
	// beforeDelete is called before an object is deleted; may be nil.
	beforeDelete func(v *view, o T) error
	// takeAway changes an object only in what a document takes away. It returns what that is, for the
	// client; empty if nothing. It may be nil.
	takeAway func(v *view, o T, d schema.Document) (string, error)
	// shown returns the digest of what responses show of other objects; empty if that is nothing.
	shown func(v *view, s *S, d schema.Document) string
	// indexes are the indexes of attributes, and lookups the available lookups, by attribute path.
	indexes map[string]*valueindex.Index[T]
	lookups map[string]lookup[T, S]
}

// collection is all resources of a kind, of all tenants.
type collection[T v1alpha1.Object, S any] struct {
	kind[T, S]
	d        *Directory
	informer toolscache.SharedIndexInformer
	records  *records[T]
	// byUniqueValue is the index of the unique value.
	byUniqueValue *valueindex.Index[T]
	// observe reports events that were handled to waiting writers.
	observe func(before, after any)
}

func newCollection[T v1alpha1.Object, S any](d *Directory, k kind[T, S], informer toolscache.SharedIndexInformer) *collection[T, S] {
	c := &collection[T, S]{kind: k, d: d, informer: informer, records: newRecords[T](), byUniqueValue: uniqueValue(k.unique.Value)}
	c.observe = d.tracker.Observer(c.id("", "").Kind)
	return c
}

// cacheTimeout is how long a write waits until the event handlers of the Directory have handled it,
// so that the next list of this replica shows it. The write succeeds even if they have not.
const cacheTimeout = 5 * time.Second

// id identifies an object of the collection.
func (c *collection[T, S]) id(namespace, name string) freshness.ID {
	return freshness.ID{Kind: v1alpha1.GroupVersion.WithKind("Scim" + c.name).GroupKind(), Key: types.NamespacedName{Namespace: namespace, Name: name}}
}

// follow registers an event handler that updates the records and notifies waiting writers.
func (c *collection[T, S]) follow() (toolscache.ResourceEventHandlerRegistration, error) {
	return c.informer.AddEventHandler(freshness.EventHandler(c.changed))
}

// changed handles an event of the informer.
func (c *collection[T, S]) changed(before, after any) {
	old, _ := before.(T)
	changed, _ := after.(T)
	c.records.change(old, changed)
	c.byUniqueValue.Change(old, changed)
	for _, x := range c.indexes {
		x.Change(old, changed)
	}
	objectBefore, _ := before.(v1alpha1.Object)
	objectAfter, _ := after.(v1alpha1.Object)
	c.d.memberChanged(objectBefore, objectAfter)
	c.observe(before, after)
}

// isVisible reports whether an object is a resource: it is not being deleted and has its unique value.
func isVisible(o v1alpha1.Object) bool {
	return o.GetDeletionTimestamp().IsZero() && !claims.IsNameTaken(o)
}

// visible returns the object of a resource from the cache, or nil. The object is shared and must not be
// modified.
func (c *collection[T, S]) visible(namespace, id string) T {
	var none T
	o, ok, err := c.informer.GetIndexer().GetByKey(keyOf(namespace, id))
	if found, isKind := o.(T); ok && err == nil && isKind && isVisible(found) {
		return found
	}
	return none
}

// live returns the object of a resource from the API server, or a 404 error. It does not send a request
// for an id that is not a valid object name.
func (c *collection[T, S]) live(ctx context.Context, namespace, id string) (T, error) {
	o := c.unique.New()
	if !isName(id) {
		return o, scimerror.NotFound(c.name, id)
	}
	err := c.d.kube.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: id}, o)
	if client.IgnoreNotFound(err) != nil {
		return o, err
	}
	if err != nil || !isVisible(o) {
		return o, scimerror.NotFound(c.name, id)
	}
	return o, nil
}

// isName reports whether an id is a valid object name.
func isName(id string) bool { return len(validation.IsDNS1123Subdomain(id)) == 0 }

func (c *collection[T, S]) getResource(v *view, id string) (*schema.Resource, error) {
	o, err := c.live(v.ctx, v.namespace, id)
	if err != nil {
		return nil, err
	}
	r := c.resource(v, o)
	return r, v.members.Err()
}

// view is the directory as one request sees it.
type view struct {
	ctx context.Context
	d   *Directory
	// account is the name of the account; empty in views of a part of a request.
	account      string
	namespace    string
	resourceType *schema.ResourceType
	projection   *schema.Projection
	// editing includes stored values that are not visible, and excludes derived values.
	editing bool
	// members reads and changes the members of groups. Its error invalidates the response.
	members *membership.Session
	// above are the results of groupsAbove.
	above map[string][]*v1alpha1.ScimGroup
}

func (d *Directory) view(ctx context.Context, namespace string, rt *schema.ResourceType, p *schema.Projection) *view {
	return d.newView(&view{ctx: ctx, namespace: namespace, resourceType: rt, projection: p})
}

func (d *Directory) newView(v *view) *view {
	v.d = d
	v.members = &membership.Session{
		Context: v.ctx, Chunks: d.chunks, Namespace: v.namespace, Unresolved: v.editing,
		Resolve: func(m *v1alpha1.ScimMember) (membership.Resolved, bool) { return d.resolve(v.namespace, m) },
	}
	return v
}

// forEditing returns a view of the same tenant for a change.
func (v *view) forEditing() *view {
	return v.d.newView(&view{ctx: v.ctx, namespace: v.namespace, resourceType: v.resourceType, editing: true})
}

// wants reports whether the request needs an expensive core attribute.
func (v *view) wants(name string) bool {
	if v.editing {
		return name == attributeMembers
	}
	a := v.resourceType.Core.Attribute(name)
	return a != nil && v.projection.Wants("", a)
}

// resource converts an object to a resource with the attributes that the view needs.
func (c *collection[T, S]) resource(v *view, o T) *schema.Resource {
	r := c.bare(v, o)
	spec := c.spec(o)
	r.Document = c.table.read(v, r.ID, spec)
	c.readExtensions(v.resourceType, *c.extensions(spec), r.Document)
	if !v.editing {
		r.Shown = c.shown(v, spec, r.Document)
	}
	return r
}

// readExtensions adds the extensions that the account declares. Extensions under other URNs are not
// visible.
func (c *collection[T, S]) readExtensions(t *schema.ResourceType, stored []v1alpha1.ScimExtension, d schema.Document) {
	for _, e := range t.Extensions {
		if c.table.byName[e.Schema.ID] != nil {
			continue
		}
		if values := extension.Read(e.Schema, stored); len(values) > 0 {
			d[e.Schema.ID] = values
		}
	}
}

// writeExtensions sets the extensions that the account declares to those of a document.
func (c *collection[T, S]) writeExtensions(t *schema.ResourceType, to *[]v1alpha1.ScimExtension, d schema.Document) error {
	for _, e := range t.Extensions {
		if c.table.byName[e.Schema.ID] != nil {
			continue
		}
		values, _ := d[e.Schema.ID].(map[string]any)
		if err := extension.Write(e.Schema, to, values); err != nil {
			return err
		}
	}
	return nil
}

// bare returns a resource without its document.
func (c *collection[T, S]) bare(v *view, o T) *schema.Resource {
	created, modified := createdAt(o), lastmodified.Precise(o)
	switch {
	case o.GetGeneration() > 1 && !modified.After(created): // changed within the second of the creation
		modified = created.Add(time.Millisecond)
	case modified.Before(created):
		modified = created
	}
	return &schema.Resource{
		Type: v.resourceType, ID: o.GetName(), Version: version(o),
		Created: created.UTC(), LastModified: modified.UTC(),
	}
}

// createdAt returns the creation time of an object: that of Kubernetes, which is in seconds, with the milliseconds
// that an id of newID contains.
func createdAt(o v1alpha1.Object) time.Time {
	second := o.GetCreationTimestamp().Time
	id, err := uuid.Parse(o.GetName())
	const version7 = 7
	if err != nil || id.Version() != version7 {
		return second
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
	if at.Before(second) {
		return second
	}
	if last := second.Add(time.Second - time.Millisecond); at.After(last) {
		return last
	}
	return at
}

// version returns the version of a resource: the generation, which status updates do not change, and
// part of the UID, which distinguishes successive objects of the same name.
func version(o v1alpha1.Object) string {
	const uidLength = 8
	uid := string(o.GetUID())
	return strconv.FormatInt(o.GetGeneration(), 10) + "-" + uid[:min(uidLength, len(uid))]
}
