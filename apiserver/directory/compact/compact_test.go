package compact

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// filled sets a random part of the fields below a value.
func filled(random *rand.Rand, v reflect.Value) {
	texts := []string{"", "x", "work", "Given0000000 Family0000000", "é\x00\n", strings.Repeat("long ", 100)}
	if random.IntN(3) == 0 && v.Kind() != reflect.Struct {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[random.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(random.Int32()) - 1<<30)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if v.Elem().Kind() == reflect.Slice { // no pointer to nil: JSON has none
			v.Elem().Set(reflect.MakeSlice(v.Type().Elem(), 0, 0))
		}
		filled(random, v.Elem())
	case reflect.Slice:
		n := random.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				v.Index(i).SetUint(random.Uint64N(256))
				continue
			}
			filled(random, v.Index(i))
		}
	case reflect.Map:
		texts := map[string]string{}
		for i := range random.IntN(4) {
			texts[fmt.Sprint("key", i)] = fmt.Sprint(random.IntN(2))
		}
		v.Set(reflect.ValueOf(texts))
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(int64(random.Int32()), int64(random.IntN(2))*1_000_000))))
			return
		}
		for i := range v.NumField() {
			filled(random, v.Field(i))
		}
	}
}

// TestObjectsAreDecodedAsTheyWere encodes random users and groups with any of their fields set.
func TestObjectsAreDecodedAsTheyWere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, empty := range []runtime.Object{&v1alpha1.ScimUser{}, &v1alpha1.ScimGroup{}} {
		codec := NewCodec(empty)
		scratch := empty.DeepCopyObject()
		for range 500 {
			want := empty.DeepCopyObject()
			filled(random, reflect.ValueOf(want).Elem())
			metadata, err := meta.Accessor(want)
			if err != nil {
				t.Fatal(err)
			}
			summary := Summary{
				Namespace: metadata.GetNamespace(), Name: metadata.GetName(), Created: metadata.GetCreationTimestamp().Time,
				Visible: random.IntN(2) == 0, Display: "Given0000000 Family0000000",
			}
			o := codec.Encode(want, summary)
			if diff := cmp.Diff(want, o.Decode()); diff != "" {
				t.Fatalf("decoded (-want +got):\n%s", diff)
			}
			o.DecodeInto(scratch)
			if diff := cmp.Diff(want, scratch); diff != "" {
				t.Fatalf("decoded into another object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(summary, o.Summary()); diff != "" {
				t.Fatalf("summary (-want +got):\n%s", diff)
			}
			decoded, err := meta.Accessor(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(reflect.ValueOf(want).Elem().FieldByName("ObjectMeta").Interface(), *decoded.(*metav1.ObjectMeta)); diff != "" {
				t.Fatalf("metadata (-want +got):\n%s", diff)
			}
		}
	}
}

// TestPivot checks that an Object without fields has a summary.
func TestPivot(t *testing.T) {
	summary := Summary{Namespace: "acme", Name: "ann", Created: time.Unix(5, 7), Display: "Ann"}
	o := Pivot(summary)
	if diff := cmp.Diff(summary, o.Summary()); diff != "" || o.GetName() != "ann" || o.GetNamespace() != "acme" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestUnknownTypes checks that a type with fields that cannot be encoded is noticed at the start, and not when a field is
// lost.
func TestUnknownTypes(t *testing.T) {
	type recursive struct{ Below []recursive }
	for name, field := range map[string]reflect.Type{
		"a number": reflect.TypeFor[float64](), "a map": reflect.TypeFor[map[string]int](), "an interface": reflect.TypeFor[any](),
		"pointers": reflect.TypeFor[[]*string](), "a channel": reflect.TypeFor[chan int](), "unexported": reflect.TypeFor[time.Time](),
		"recursive": reflect.TypeFor[recursive](),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the type is accepted")
				}
			}()
			check(field, "field", nil)
		})
	}
}

// TestMemory checks that a usual user takes the memory of its texts and little more: 300 bytes of text here.
func TestMemory(t *testing.T) {
	if o := NewCodec(&v1alpha1.ScimUser{}).Encode(usual(), Summary{Namespace: "acme", Name: "u"}); len(o.data) > 360 {
		t.Errorf("%d bytes", len(o.data))
	}
}

// usual returns a user like those of identity providers.
func usual() *v1alpha1.ScimUser {
	const id, name, address = "01a203d5-b0a3-74f1-97bb-283c13d560a5", "Given0000000 Family0000000", "user.0000000@bench.example.com"
	return &v1alpha1.ScimUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: id, UID: id, ResourceVersion: "123456", Generation: 1, CreationTimestamp: metav1.Unix(1_700_000_000, 0)},
		Spec: v1alpha1.ScimUserSpec{
			UserName: address, ExternalID: "00u0000000", DisplayName: name, Title: "Analyst", Locale: "en-GB", Timezone: "Europe/London",
			Active:       new(true),
			Name:         &v1alpha1.ScimName{Formatted: name, GivenName: "Given0000000", FamilyName: "Family0000000"},
			Emails:       []v1alpha1.ScimMultiValue{{Value: address, Type: "work", Primary: new(true)}},
			PhoneNumbers: []v1alpha1.ScimMultiValue{{Value: "+44 20 0000000", Type: "work"}},
			Enterprise:   &v1alpha1.ScimEnterprise{EmployeeNumber: "0000000", CostCenter: "4130", Organization: "Universal Studios", Department: "Tour Operations"},
		},
	}
}

func BenchmarkObject(b *testing.B) {
	codec, u := NewCodec(&v1alpha1.ScimUser{}), usual()
	o := codec.Encode(u, Summary{Name: u.Name})
	scratch := &v1alpha1.ScimUser{}
	for name, work := range map[string]func(){
		"encode": func() { codec.Encode(u, Summary{Name: u.Name}) }, "decode": func() { o.Decode() },
		"decode into": func() { o.DecodeInto(scratch) }, "summary": func() { o.Summary() }, "metadata": func() { o.GetObjectMeta() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				work()
			}
		})
	}
}
