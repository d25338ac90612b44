package directory

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// kind is what tells Users from Groups: all else is the same for both.
type kind[T v1alpha1.Object, S any] struct {
	// name of the resource type.
	name string
	// table is what the spec consists of, without the extensions that accounts declare.
	table      *table[S]
	spec       func(T) *S
	extensions func(*S) *[]v1alpha1.ScimExtension
	// uniqueName is the attribute that is unique, and unique how it is kept so.
	uniqueName string
	unique     claims.Attribute[T]
	// complete sets what a new object has even if nobody says so; may be nil.
	complete func(T)
	// store writes what of an object, which has a name, is kept in others, and refers to them in the
	// spec; may be nil.
	store func(v *view, name string, s *S, d schema.Document) error
	// lookups are the indexes by the paths of their attributes.
	lookups map[string]lookup[T, S]
}

// collection is all resources of a kind.
type collection[T v1alpha1.Object, S any] struct {
	kind[T, S]
	d        *Directory
	informer toolscache.SharedIndexInformer
	records  *records[T]
}

func newCollection[T v1alpha1.Object, S any](d *Directory, k kind[T, S], informer toolscache.SharedIndexInformer) *collection[T, S] {
	return &collection[T, S]{kind: k, d: d, informer: informer, records: newRecords[T]()}
}

// follow keeps the records up to date, and tells those who wait for a write.
func (c *collection[T, S]) follow() (toolscache.ResourceEventHandlerRegistration, error) {
	return c.informer.AddEventHandler(handler(c.changed))
}

// changed is told of each event of the informer.
func (c *collection[T, S]) changed(before, after any) {
	was, _ := before.(T)
	is, _ := after.(T)
	c.records.change(was, is)
	c.d.seen.happened(c.name, before, after)
}

// handler calls one function with what was and what is: nil where there is nothing.
func handler(changed func(before, after any)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(nil, o) },
		UpdateFunc: changed,
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			changed(o, nil)
		},
	}
}

// isVisible tells whether an object is a resource.
func isVisible(o v1alpha1.Object) bool {
	return o.GetDeletionTimestamp().IsZero() && !claims.IsNameTaken(o)
}

// visible is a resource's object as the cache has it, nil when there is none. It is shared: not to
// be changed.
func (c *collection[T, S]) visible(namespace, id string) T {
	var none T
	o, ok, err := c.informer.GetIndexer().GetByKey(keyOf(namespace, id))
	if found, isKind := o.(T); ok && err == nil && isKind && isVisible(found) {
		return found
	}
	return none
}

// live is a resource's object as the API server has it. An object of any other name than Kubernetes
// gives cannot be there, and is not asked for.
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

// isName tells whether an object can have such a name.
func isName(id string) bool { return len(validation.IsDNS1123Subdomain(id)) == 0 }

func (c *collection[T, S]) getResource(v *view, id string) (*schema.Resource, error) {
	o, err := c.live(v.ctx, v.namespace, id)
	if err != nil {
		return nil, err
	}
	r := c.resource(v, o)
	return r, v.err
}

// view is how one request sees the directory.
type view struct {
	ctx          context.Context
	d            *Directory
	namespace    string
	resourceType *schema.ResourceType
	projection   *schema.Projection
	// editing sees what is kept, whether it is shown or not, and nothing that is derived.
	editing bool
	// err is what went wrong where no error can be returned: the answer is then no answer.
	err error
	// written are the chunks that were written for the change.
	written []*wait
}

// forEditing is the same view for a change.
func (v *view) forEditing() *view {
	return &view{ctx: v.ctx, d: v.d, namespace: v.namespace, resourceType: v.resourceType, editing: true}
}

// wants tells whether a core attribute that is costly is asked for.
func (v *view) wants(name string) bool {
	if v.editing {
		return name == attributeMembers
	}
	a := v.resourceType.Core.Attribute(name)
	return a != nil && v.projection.Wants("", a)
}

// resource is an object as a resource, with what the view wants.
func (c *collection[T, S]) resource(v *view, o T) *schema.Resource {
	r := c.bare(v, o)
	spec := c.spec(o)
	r.Document = c.table.read(v, r.ID, spec)
	c.readExtensions(v.resourceType, *c.extensions(spec), r.Document)
	return r
}

// bare is a resource without its document.
func (c *collection[T, S]) bare(v *view, o T) *schema.Resource {
	created, modified := o.GetCreationTimestamp().Time, lastmodified.Of(o)
	if modified.Before(created) {
		modified = created
	}
	return &schema.Resource{
		Type: v.resourceType, ID: o.GetName(), Version: version(o),
		Created: created.UTC(), LastModified: modified.UTC(),
	}
}
