// Package compact keeps Kubernetes objects in little memory: as one immutable string each, which is decoded when the object
// is read.
//
// A user as a Go struct takes some thirty allocations and four times the memory. The garbage collector scans the pointers of
// the structs in each cycle, and those of strings not at all.
package compact

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Summary is what can be read of an Object without decoding it.
type Summary struct {
	Namespace, Name string
	// Created is the creation time.
	Created time.Time
	// Visible reports whether the object is a resource.
	Visible bool
	// Display is the name in user interfaces.
	Display string
}

// Object is an object in compact form. It is immutable, and safe for concurrent use.
//
// It is a runtime.Object whose deep copy is the decoded object, so that readers of a cache of Objects get decoded ones.
type Object struct {
	codec *Codec
	// data is a Summary, then the metadata, and then the other fields of the object.
	data string
}

// Codec encodes the objects of one type.
type Codec struct {
	object reflect.Type
	// metadata is the index of the field with the metadata.
	metadata int
}

// NewCodec returns the codec of the type of an object, a pointer to a struct. It panics if the type has a field that cannot be
// encoded.
func NewCodec(of runtime.Object) *Codec {
	t := reflect.TypeOf(of).Elem()
	check(t, t.Name(), nil)
	metadata, ok := t.FieldByName("ObjectMeta")
	if !ok {
		panic("compact: " + t.Name() + " has no metadata")
	}
	return &Codec{object: t, metadata: metadata.Index[0]}
}

// Encode returns an object in compact form. It does not retain the object.
func (c *Codec) Encode(o runtime.Object, s Summary) *Object {
	e, v := newEncoder(), reflect.ValueOf(o).Elem()
	e.summary(s)
	e.value(v.Field(c.metadata))
	e.fields(v, c.metadata)
	return &Object{codec: c, data: e.result()}
}

// Pivot returns an Object that has only a summary, to compare others with.
func Pivot(s Summary) *Object {
	e := newEncoder()
	e.summary(s)
	return &Object{data: e.result()}
}

// Summary returns the summary.
func (o *Object) Summary() Summary {
	d := decoder{data: o.data}
	return d.summary()
}

// GetName returns the name of the object.
func (o *Object) GetName() string { return o.Summary().Name }

// GetNamespace returns the namespace of the object.
func (o *Object) GetNamespace() string { return o.Summary().Namespace }

// Decode returns the object. Its strings share the memory of the compact form.
func (o *Object) Decode() runtime.Object {
	into := reflect.New(o.codec.object)
	o.decode(into.Elem())
	decoded, _ := into.Interface().(runtime.Object) // by NewCodec
	return decoded
}

// DecodeInto replaces an object of the same type, whose memory is reused: nothing may refer to it.
func (o *Object) DecodeInto(into runtime.Object) {
	v := reflect.ValueOf(into).Elem()
	v.SetZero()
	o.decode(v)
}

// decode decodes the object into one that is zero.
func (o *Object) decode(into reflect.Value) {
	d := decoder{data: o.data}
	d.summary()
	d.value(into.Field(o.codec.metadata))
	d.fields(into)
}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (o *Object) GetObjectMeta() metav1.Object {
	metadata := &metav1.ObjectMeta{}
	d := decoder{data: o.data}
	d.summary()
	d.value(reflect.ValueOf(metadata).Elem())
	return metadata
}

// GetObjectKind implements runtime.Object. The kind of cached objects is not set.
func (o *Object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. It returns the decoded object.
func (o *Object) DeepCopyObject() runtime.Object { return o.Decode() }
