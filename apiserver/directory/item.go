package directory

import (
	"strconv"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// version of a resource: that of the spec, so that a controller's status does not change it, and
// of the object, so that another one of the same name has another version.
func version(o v1alpha1.Object) string {
	const enough = 8
	uid := string(o.GetUID())
	return strconv.FormatInt(o.GetGeneration(), 10) + "-" + uid[:min(enough, len(uid))]
}

// item is an object that a query looks at. It reads what it is asked for, and no more.
type item[T v1alpha1.Object, S any] struct {
	c      *collection[T, S]
	v      *view
	object T
}

// Get implements schema.Source.
func (i *item[T, S]) Get(ref schema.Ref) any {
	if ref.Extension == "" {
		switch ref.Attribute.Name {
		case "id":
			return i.object.GetName()
		case "meta":
			return i.c.bare(i.v, i.object).Get(ref)
		case "schemas":
			return i.Resource().Get(ref)
		}
	}
	spec := i.c.spec(i.object)
	if value, ok := i.c.table.attribute(i.v, i.object.GetName(), spec, ref); ok {
		return value
	}
	s := i.v.resourceType.Extension(ref.Extension)
	if s == nil {
		return nil
	}
	values := readExtension(s, *i.c.extensions(spec))
	switch {
	case ref.Attribute != nil:
		return values[ref.Attribute.Name]
	case len(values) == 0:
		return nil
	}
	return values
}

// Position implements scim.Item.
func (i *item[T, S]) Position() scim.Position {
	return scim.PositionOf(i.object.GetCreationTimestamp().Time, i.object.GetName())
}

// Resource implements scim.Item.
func (i *item[T, S]) Resource() *schema.Resource { return i.c.resource(i.v, i.object) }
