package compact

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decoder reads what an encoder wrote. It does not check the data, which never leave the process.
type decoder struct {
	data string
	at   int
}

func (d *decoder) summary() Summary {
	var s Summary
	s.Name = d.text()
	s.Namespace = d.text()
	s.Created = d.time()
	s.Visible = d.bool()
	s.Display = d.text()
	return s
}

func (d *decoder) uint() uint64 {
	var n uint64
	for shift := 0; ; shift += 7 {
		b := d.data[d.at]
		d.at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

// int reads a number in the zigzag encoding of encoding/binary.
func (d *decoder) int() int64 {
	n := d.uint()
	return int64(n>>1) ^ -int64(n&1)
}

func (d *decoder) bool() bool {
	d.at++
	return d.data[d.at-1] != 0
}

func (d *decoder) time() time.Time {
	seconds := d.int()
	nanoseconds := d.uint()
	if seconds == zeroSeconds && nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanoseconds)) //nolint:gosec // less than a second
}

var zeroSeconds = time.Time{}.Unix()

// text returns a part of the data.
func (d *decoder) text() string {
	n := d.uint()
	if n&1 == 1 {
		earlier := decoder{data: d.data, at: int(n >> 1)}
		return earlier.text()
	}
	from := d.at
	d.at += int(n >> 1)
	return d.data[from:d.at]
}

// value decodes a value into one that is zero.
func (d *decoder) value(into reflect.Value) {
	switch into.Kind() {
	case reflect.String:
		into.SetString(d.text())
	case reflect.Bool:
		into.SetBool(d.bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		into.SetInt(d.int())
	case reflect.Pointer:
		p := reflect.New(into.Type().Elem())
		d.value(p.Elem())
		into.Set(p)
	case reflect.Slice:
		d.slice(into)
	case reflect.Map:
		n := int(d.uint()) //nolint:gosec // a length in the data
		texts := make(map[string]string, n)
		for range n {
			key := d.text()
			texts[key] = d.text()
		}
		into.Set(reflect.ValueOf(texts))
	case reflect.Struct:
		if into.Type() == timeType {
			into.Set(reflect.ValueOf(metav1.NewTime(d.time())))
			return
		}
		d.fields(into)
	}
}

func (d *decoder) slice(into reflect.Value) {
	n := int(d.uint()) //nolint:gosec // a length in the data
	if into.Type().Elem().Kind() == reflect.Uint8 {
		from := d.at
		d.at += n
		into.Set(reflect.ValueOf([]byte(d.data[from:d.at])).Convert(into.Type()))
		return
	}
	elements := reflect.MakeSlice(into.Type(), n, n)
	for i := range n {
		d.value(elements.Index(i))
	}
	into.Set(elements)
}

// fields decodes the fields of a struct that is zero.
func (d *decoder) fields(into reflect.Value) {
	for {
		n := int(d.uint()) //nolint:gosec // the number of a field
		if n == 0 {
			return
		}
		d.value(into.Field(n - 1))
	}
}
