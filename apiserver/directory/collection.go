package directory

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/attribute"
	"github.com/quoin-dev/quoin/apiserver/directory/compact"
	"github.com/quoin-dev/quoin/apiserver/directory/extension"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
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
	// attributes are the values of user attributes; nil if the kind has none.
	attributes func(*S) *[]v1alpha1.UserAttributeValue
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
	// recordDeletion is called before an object is deleted, and again afterwards; may be nil.
	recordDeletion func(ctx context.Context, d *Directory, o T) error
	// takeAway changes an object only in what a document takes away. It returns what that is, for the
	// client; empty if nothing. It may be nil.
	takeAway func(v *view, o T, d schema.Document) (string, error)
	// size returns the number of elements of an object that responses may contain; nil if there are few.
	size func(*S) int
	// ownersCached means that the cache has what edits need to know of the owners of fields.
	ownersCached bool
	// shown returns the digest of what responses show of other objects; empty if that is nothing.
	shown func(v *view, s *S, d schema.Document) string
	// indexed are the functions that return the values of indexed attributes, and lookups the available
	// lookups, by attribute path.
	indexed map[string]func(T) []string
	lookups map[string]lookup[T, S]
}

// collection is all resources of a kind, of all tenants.
type collection[T v1alpha1.Object, S any] struct {
	kind[T, S]
	d        *Directory
	informer toolscache.SharedIndexInformer
	records  *records
	// byUniqueValue is the index of the unique value, and indexes are those of attributes, by path.
	byUniqueValue *attributeIndex[T]
	indexes       map[string]*attributeIndex[T]
	// freed counts the objects that were deleted or lost their unique value to a change, by namespace.
	freed counts
	// observe reports events that were handled to waiting writers.
	observe func(before, after any)
}

func newCollection[T v1alpha1.Object, S any](d *Directory, k kind[T, S], informer toolscache.SharedIndexInformer) *collection[T, S] {
	c := &collection[T, S]{
		kind: k, d: d, informer: informer, records: newRecords(),
		byUniqueValue: newIndex(uniqueValue(k.unique.Value)), indexes: map[string]*attributeIndex[T]{},
	}
	for path, values := range k.indexed {
		c.indexes[path] = newIndex(values)
	}
	c.indexes[attributeNumber] = newIndex(numberValue[T](k.name))
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
	old, changed := stateOf[T](before), stateOf[T](after)
	c.records.change(old.cached, changed.cached)
	if old.cached != nil && !slices.Equal(c.byUniqueValue.of(old), c.byUniqueValue.of(changed)) {
		c.freed.add(old.cached.GetNamespace()) // before the index, so that a read after the object is missing there returns the new count
	}
	c.byUniqueValue.change(old, changed)
	for _, x := range c.indexes {
		x.change(old, changed)
	}
	c.d.memberChanged(old.any(), changed.any())
	c.observe(old.any(), changed.any())
}

// isNil reports whether o is a nil pointer: a type parameter cannot be compared with nil.
func isNil[T v1alpha1.Object](o T) bool {
	var none T
	return any(o) == any(none)
}

// isVisible reports whether an object is a resource: it is not being deleted and has its unique value.
func isVisible(o v1alpha1.Object) bool {
	return o.GetDeletionTimestamp().IsZero() && !claims.IsNameTaken(o)
}

// cached returns the object of a resource in the cache, or nil.
func (c *collection[T, S]) cached(namespace, id string) *compact.Object {
	o, _, err := c.informer.GetIndexer().GetByKey(keyOf(namespace, id))
	if found, ok := o.(*compact.Object); ok && err == nil && found.Summary().Visible {
		return found
	}
	return nil
}

// visible returns the object of a resource from the cache, or nil.
func (c *collection[T, S]) visible(namespace, id string) T {
	return decoded[T](c.cached(namespace, id))
}

// live returns the object of a resource from the API server, or a 404 error. It does not send a request
// for an id that is not a valid object name.
func (c *collection[T, S]) live(ctx context.Context, namespace, id string) (T, error) {
	return c.read(ctx, namespace, id)
}

// recent is like live, but a cached object is read from the cache of the API server, which costs less than half of a read of
// etcd. The object is not older than the cached one. Nor is it older than a write of any replica that has returned, since writes
// wait for their events: with several API servers, which have a cache each, it may be, for as long as an event takes.
func (c *collection[T, S]) recent(ctx context.Context, namespace, id string) (T, error) {
	cached := c.visible(namespace, id)
	if isNil(cached) {
		return c.live(ctx, namespace, id)
	}
	o, err := c.read(ctx, namespace, id, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: cached.GetResourceVersion()}})
	if apierrors.IsTimeout(err) { // the cache of the API server is behind
		return c.live(ctx, namespace, id)
	}
	return o, err
}

func (c *collection[T, S]) read(ctx context.Context, namespace, id string, options ...client.GetOption) (T, error) {
	o := c.unique.New()
	if !isName(id) {
		return o, scimerror.NotFound(c.name, id)
	}
	err := c.d.kube.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: id}, o, options...)
	if client.IgnoreNotFound(err) != nil {
		return o, err
	}
	if err != nil || !isVisible(o) {
		return o, scimerror.NotFound(c.name, id)
	}
	restoreLost(o)
	return o, nil
}

// isName reports whether an id is a valid object name.
func isName(id string) bool { return len(validation.IsDNS1123Subdomain(id)) == 0 }

func (c *collection[T, S]) getResource(v *view, id string) (*schema.Resource, error) {
	o, err := c.live(v.ctx, v.namespace, id)
	if err != nil {
		return nil, err
	}
	return c.response(v, o)
}

// response converts an object to a resource, in turns with the work of other accounts if it is large.
func (c *collection[T, S]) response(v *view, o T) (*schema.Resource, error) {
	if c.size == nil || c.size(c.spec(o)) <= shortGroup || !v.wants(attributeMembers) {
		r := c.resource(v, o)
		return r, v.members.Err()
	}
	var err error
	if v.turn, err = fairsemaphore.Processors.Begin(v.ctx, v.account); err != nil {
		return nil, err
	}
	defer v.turn.End()
	r := c.resource(v, o)
	return r, errors.Join(v.members.Err(), v.ctx.Err())
}

// edit edits the spec of an object in one write.
func (c *collection[T, S]) edit(v *view, id string, change func(live, edited T) error) (T, bool, error) {
	if c.ownersCached {
		if known := c.visible(v.namespace, id); !isNil(known) && !mayBeRestored(known) {
			return edit.SpecOf(v.ctx, c.d.kube, known, change)
		}
	}
	return edit.Spec(v.ctx, c.d.kube, client.ObjectKey{Namespace: v.namespace, Name: id}, change)
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
	// turn is that of long work; may be nil.
	turn *fairsemaphore.Turn
	// groups are the results of group.
	groups map[*compact.Object]*v1alpha1.ScimGroup
	// above are the results of groupsAbove.
	above map[string][]*v1alpha1.ScimGroup
	// elements are the results of groupElement.
	elements map[groupElementKey]map[string]any
	// shown is the memory of shownOfUser.
	shown []byte
	// documents is the memory of documents; nil if the documents of a request are used together.
	documents *documents
}

func (d *Directory) view(ctx context.Context, namespace string, rt *schema.ResourceType, p *schema.Projection) *view {
	return d.newView(&view{ctx: ctx, namespace: namespace, resourceType: rt, projection: p})
}

func (d *Directory) newView(v *view) *view {
	v.d = d
	v.members = &membership.Session{
		Context: v.ctx, Chunks: d.chunks, Account: v.account, Namespace: v.namespace, Unresolved: v.editing,
		Resolve: func(m *v1alpha1.ScimMember) (membership.Resolved, bool) { return d.resolve(v.namespace, m) },
	}
	return v
}

// forEditing returns a view of the same tenant for a change.
func (v *view) forEditing() *view {
	return v.d.newView(&view{ctx: v.ctx, account: v.account, namespace: v.namespace, resourceType: v.resourceType, editing: true})
}

// yield lets the work of other accounts run. It reports whether the request goes on.
func (v *view) yield() bool { return v.turn == nil || v.turn.Yield() == nil }

// wants reports whether the request needs an expensive core attribute.
func (v *view) wants(name string) bool {
	if v.editing {
		return name == attributeMembers
	}
	a := v.resourceType.Core.Attribute(name)
	return a != nil && v.projection.Wants("", a)
}

// resource converts an object to a resource with the attributes that the view needs. The resource may refer to the fields of the
// object, but not to the object itself, whose memory may be used for the next one.
func (c *collection[T, S]) resource(v *view, o T) *schema.Resource {
	r := c.bare(v, o)
	spec := c.spec(o)
	r.Document = c.table.read(v, r.ID, spec)
	c.readExtensions(v.resourceType, spec, r.Document)
	if !v.editing {
		r.Shown = c.shown(v, spec, r.Document)
	}
	return r
}

// readExtensions adds the extensions that the account declares. Extensions under other URNs are not
// visible.
func (c *collection[T, S]) readExtensions(t *schema.ResourceType, spec *S, d schema.Document) {
	for _, e := range t.Extensions {
		if c.table.byName[e.Schema.ID] != nil {
			continue
		}
		if values := c.readExtension(e.Schema, spec); len(values) > 0 {
			d[e.Schema.ID] = values
		}
	}
}

// readExtension returns the values of an extension without a row in the table, and of its user attributes.
func (c *collection[T, S]) readExtension(s *schema.Schema, spec *S) map[string]any {
	values := extension.Read(s, *c.extensions(spec))
	if c.attributes == nil || !schema.SameName(schema.UserAttributeURN, s.ID) {
		return values
	}
	ofUser := attribute.Read(s, *c.attributes(spec))
	if len(values) == 0 {
		return ofUser
	}
	maps.Copy(values, ofUser)
	return values
}

// writeExtensions sets the extensions that the account declares to those of a document.
func (c *collection[T, S]) writeExtensions(t *schema.ResourceType, spec *S, d schema.Document) error {
	for _, e := range t.Extensions {
		if c.table.byName[e.Schema.ID] != nil {
			continue
		}
		values, _ := d[e.Schema.ID].(map[string]any)
		if err := extension.Write(e.Schema, c.extensions(spec), values); err != nil {
			return err
		}
		if c.attributes == nil || !schema.SameName(schema.UserAttributeURN, e.Schema.ID) {
			continue
		}
		if err := attribute.Write(e.Schema, c.attributes(spec), values); err != nil {
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
