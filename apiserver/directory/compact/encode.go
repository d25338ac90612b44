package compact

import (
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The encoding of values:
//
//	struct        the fields that are not zero, each with its number before it, from 1, and 0 at the end
//	string        twice its length and its bytes, or twice the position of an equal string in the data, plus 1
//	pointer       what it points to; nil pointers are zero
//	slice, map    the number of elements, and the elements
//	time          seconds and nanoseconds of Unix time
//	integer       a varint
//
// Numbers of fields are those of the running program: the encoding is never stored.

// minShared is the length from which on equal strings are encoded once.
const minShared = 4

// maxShared is the number of strings that are compared with others, so that the time is linear.
const maxShared = 32

type encoder struct {
	data []byte
	// texts are earlier strings, and at their positions.
	texts []string
	at    []int
}

func newEncoder() *encoder { return &encoder{data: make([]byte, 0, 512)} }

// result returns the data in memory of its exact size.
func (e *encoder) result() string { return string(e.data) }

func (e *encoder) summary(s Summary) {
	e.text(s.Name)
	e.text(s.Namespace)
	e.time(s.Created)
	e.bool(s.Visible)
	e.text(s.Display)
}

func (e *encoder) uint(n uint64) { e.data = binary.AppendUvarint(e.data, n) }

func (e *encoder) int(n int64) { e.data = binary.AppendVarint(e.data, n) }

func (e *encoder) bool(b bool) {
	if b {
		e.data = append(e.data, 1)
		return
	}
	e.data = append(e.data, 0)
}

func (e *encoder) time(t time.Time) {
	e.int(t.Unix())
	e.uint(uint64(t.Nanosecond())) //nolint:gosec // not negative
}

func (e *encoder) text(s string) {
	shared := len(s) >= minShared
	if shared {
		if i := slices.Index(e.texts, s); i >= 0 {
			e.uint(uint64(e.at[i])<<1 | 1) //nolint:gosec // not negative
			return
		}
		if len(e.texts) < maxShared {
			e.texts, e.at = append(e.texts, s), append(e.at, len(e.data))
		}
	}
	e.uint(uint64(len(s)) << 1)
	e.data = append(e.data, s...)
}

func (e *encoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		e.text(v.String())
	case reflect.Bool:
		e.bool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.int(v.Int())
	case reflect.Pointer:
		e.value(v.Elem())
	case reflect.Slice:
		e.slice(v)
	case reflect.Map:
		texts, _ := v.Interface().(map[string]string)
		e.uint(uint64(len(texts)))
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			e.text(key)
			e.text(texts[key])
		}
	case reflect.Struct:
		if v.Type() != timeType {
			e.fields(v, -1)
			return
		}
		at, _ := v.Interface().(metav1.Time)
		e.time(at.Time)
	}
}

func (e *encoder) slice(v reflect.Value) {
	n := v.Len()
	e.uint(uint64(n)) //nolint:gosec // not negative
	if v.Type().Elem().Kind() == reflect.Uint8 {
		e.data = append(e.data, v.Bytes()...)
		return
	}
	for i := range n {
		e.value(v.Index(i))
	}
}

// fields encodes the fields of a struct that are not zero, except the one with an index.
func (e *encoder) fields(v reflect.Value, except int) {
	for i := range v.NumField() {
		if field := v.Field(i); i != except && !field.IsZero() {
			e.uint(uint64(i) + 1)
			e.value(field)
		}
	}
	e.uint(0)
}

var timeType = reflect.TypeFor[metav1.Time]()

// check panics if values of a type cannot be encoded.
func check(t reflect.Type, path string, above []reflect.Type) {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return
	case reflect.Pointer:
		check(t.Elem(), path, above)
		return
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return
		}
		if t.Elem().Kind() != reflect.Pointer { // nil elements have no encoding
			check(t.Elem(), path+"[]", above)
			return
		}
	case reflect.Map:
		if t == reflect.TypeFor[map[string]string]() {
			return
		}
	case reflect.Struct:
		if t == timeType {
			return
		}
		if !slices.Contains(above, t) && checkFields(t, path, append(above, t)) {
			return
		}
	}
	panic(fmt.Sprintf("compact: %s is a %s, which cannot be encoded", path, t))
}

// checkFields reports whether all fields of a struct are exported, and checks their types.
func checkFields(t reflect.Type, path string, above []reflect.Type) bool {
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return false
		}
		check(t.Field(i).Type, path+"."+t.Field(i).Name, above)
	}
	return true
}
