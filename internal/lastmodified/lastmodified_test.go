package lastmodified

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

var created = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// entry returns a managedFields entry, written some hours after the object was created.
func entry(hours int, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: "kubectl", Operation: "Update", Subresource: subresource, FieldsType: "FieldsV1",
		Time: new(metav1.NewTime(created.Add(time.Duration(hours) * time.Hour))), FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}
}

func TestOf(t *testing.T) {
	const spec = `{"f:spec":{".":{},"f:userName":{}}}`
	cases := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		hours   int
	}{
		"none":                     {nil, 0},
		"one":                      {[]metav1.ManagedFieldsEntry{entry(1, "", spec)}, 1},
		"the latest":               {[]metav1.ManagedFieldsEntry{entry(1, "", spec), entry(3, "", spec), entry(2, "", spec)}, 3},
		"not the status":           {[]metav1.ManagedFieldsEntry{entry(1, "", spec), entry(2, "status", `{"f:status":{}}`)}, 1},
		"not a spec in the status": {[]metav1.ManagedFieldsEntry{entry(1, "", spec), entry(2, "status", spec)}, 1},
		"not labels":               {[]metav1.ManagedFieldsEntry{entry(1, "", spec), entry(2, "", `{"f:metadata":{"f:labels":{}}}`)}, 1},
		"not an annotation f:spec": {[]metav1.ManagedFieldsEntry{entry(2, "", `{"f:metadata":{"f:annotations":{"f:spec":{}}}}`)}, 0},
		"not before the creation":  {[]metav1.ManagedFieldsEntry{entry(-1, "", spec)}, 0},
		"malformed":                {[]metav1.ManagedFieldsEntry{entry(1, "", `{"f:spec"`)}, 0},
		"without time":             {[]metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(spec)}}}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created), ManagedFields: tc.entries}}
			want := created.Add(time.Duration(tc.hours) * time.Hour)
			if got := Of(u); !got.Equal(want) {
				t.Errorf("full: %s, want %s", got, want)
			}
			for range 2 { // caches may transform an object twice
				if _, err := Transform()(u); err != nil {
					t.Fatal(err)
				}
				if got := Of(u); !got.Equal(want) || len(u.ManagedFields) > 1 {
					t.Errorf("reduced: %s, want %s; %v", got, want, u.ManagedFields)
				}
			}
		})
	}
}

func TestTransformKeepsOtherTypes(t *testing.T) {
	unknown := toolscache.DeletedFinalStateUnknown{Key: "acme/ann"}
	if got, err := Transform()(unknown); err != nil || got != any(unknown) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestOfWithAPIServer checks Of with managed fields that the Kubernetes API server wrote.
func TestOfWithAPIServer(t *testing.T) {
	api, namespace := apitest.Direct(t)
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ann"}, Spec: v1alpha1.ScimUserSpec{UserName: "ann"}}
	if err := api.Create(t.Context(), u, client.FieldOwner("one")); err != nil {
		t.Fatal(err)
	}
	created := Of(u)
	if !created.Equal(u.CreationTimestamp.Time) {
		t.Errorf("created at %s, modified at %s", u.CreationTimestamp, created)
	}
	time.Sleep(1100 * time.Millisecond) // times are in seconds
	patch := func(manager, patch string, sub bool) {
		t.Helper()
		var err error
		if p := client.RawPatch("application/merge-patch+json", []byte(patch)); sub {
			err = api.Status().Patch(t.Context(), u, p, client.FieldOwner(manager))
		} else {
			err = api.Patch(t.Context(), u, p, client.FieldOwner(manager))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	patch("two", `{"status":{"observedGeneration":1}}`, true)
	patch("three", `{"metadata":{"labels":{"a":"b"}}}`, false)
	patch("one", `{"spec":{"userName":"ann"}}`, false)
	if got := Of(u); !got.Equal(created) {
		t.Errorf("modified at %s without a change of the spec", got)
	}
	patch("two", `{"spec":{"title":"Dr"}}`, false)
	if got := Of(u); !got.After(created) {
		t.Errorf("modified at %s although the spec has changed", got)
	}
}

func TestPrecise(t *testing.T) {
	const spec = `{"f:spec":{".":{},"f:userName":{}}}`
	at := created.Add(time.Hour + 250*time.Millisecond) // within the second of entry(1)
	u := func(generation int64, annotation string, hours int) *v1alpha1.ScimUser {
		o := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Generation: generation, CreationTimestamp: metav1.NewTime(created), ManagedFields: []metav1.ManagedFieldsEntry{entry(hours, "", spec)}}}
		if annotation != "" {
			o.Annotations = map[string]string{v1alpha1.AnnotationModified: annotation}
		}
		return o
	}
	stamp := func(generation string) string { return generation + " " + at.Format(time.RFC3339Nano) }
	for name, tc := range map[string]struct {
		object *v1alpha1.ScimUser
		want   time.Time
	}{
		"no annotation":                     {u(2, "", 1), created.Add(time.Hour)},
		"the recorded change":               {u(2, stamp("2"), 1), at},
		"another change in the same second": {u(3, stamp("2"), 1), at.Add(time.Millisecond)},
		"another change later":              {u(3, stamp("2"), 2), created.Add(2 * time.Hour)},
		"restored from a backup":            {u(1, stamp("2"), 3), created.Add(3 * time.Hour)},
		"malformed":                         {u(2, "2 yesterday", 1), created.Add(time.Hour)},
		"no generation":                     {u(2, at.Format(time.RFC3339Nano), 1), created.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // whole and reduced
				if got := Precise(tc.object); !got.Equal(tc.want) {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				if _, err := Transform()(tc.object); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Changes in the same millisecond, or with a clock that is behind, have increasing times.
func TestStampIncreases(t *testing.T) {
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Generation: 1, CreationTimestamp: metav1.NewTime(created)}}
	last := Precise(u)
	for _, now := range []time.Time{created.Add(time.Hour), created.Add(time.Hour), created, created.Add(2 * time.Hour)} {
		Stamp(u, now)
		u.Generation++
		if got := Precise(u); !got.After(last) {
			t.Errorf("%s after %s", got, last)
		} else {
			last = got
		}
	}
	if !last.Equal(created.Add(2 * time.Hour)) {
		t.Errorf("got %s", last)
	}
}
