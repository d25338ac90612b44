package backup

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-dev/quoin/internal/store"
)

// archive returns an archive with an object and a row.
func archive(t testing.TB, h Header) []byte {
	t.Helper()
	out := &bytes.Buffer{}
	w, err := newWriter(out, h)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "generation": int64(3)}}}
	for _, l := range []line{{Object: obj}, {Content: &store.Record{Row: []any{int64(1)<<53 - 1, "text", []byte{0, 0xff}, nil}}}} {
		if err := w.write(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readAll returns the lines of an archive, and nil if it is complete.
func readAll(data []byte) (lines []line, err error) {
	r, err := newReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		l, err := r.next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
}

func TestArchive(t *testing.T) {
	lines, err := readAll(archive(t, Header{Format: Format, ID: "1"}))
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	if n := lines[0].Object.GetGeneration(); n != 3 {
		t.Errorf("generation %d", n)
	}
	row := lines[1].Content.Row
	if got := fmt.Sprint(row); got != "[9007199254740991 text "+base64.StdEncoding.EncodeToString([]byte{0, 0xff})+" <nil>]" {
		t.Errorf("row %v", got)
	}
}

// An archive that ends anywhere, or in which any byte has changed, is damaged.
func TestDamagedArchives(t *testing.T) {
	whole := archive(t, Header{Format: Format, ID: "1"})
	for n := range whole {
		if _, err := readAll(whole[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	if _, err := readAll(append(bytes.Clone(whole), 'x')); !errors.Is(err, ErrDamaged) {
		t.Errorf("with one more byte: %v", err)
	}
	for name, h := range map[string]Header{"no format": {ID: "1"}, "no id": {Format: Format}} {
		if _, err := readAll(archive(t, h)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readAll(archive(t, Header{Format: Format + 1, ID: "1"})); !errors.Is(err, ErrNewer) {
		t.Errorf("newer format: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(archive(f, Header{Format: Format, ID: "1"}))
	f.Add([]byte("not an archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readAll(data); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Error(err)
		}
	})
}

func object(kind string, change func(o *unstructured.Unstructured)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "platform.quoin.dev/v1alpha1", "kind": kind}}
	o.SetNamespace("demo")
	o.SetName("sales")
	o.SetUID("child")
	o.SetGeneration(5)
	o.SetResourceVersion("7")
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	if change != nil {
		change(o)
	}
	return o
}

func owned(by metav1.OwnerReference) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetOwnerReferences([]metav1.OwnerReference{by}) }
}

// What depends on UIDs and generations of the other cluster is replaced.
func TestRestorable(t *testing.T) {
	m := newMapping()
	live := object("Deployment", func(o *unstructured.Unstructured) { o.SetUID("new"); o.SetGeneration(1) })
	m.add(object("Deployment", func(o *unstructured.Unstructured) { o.SetUID("old") }), live)
	owner := metav1.OwnerReference{APIVersion: "platform.quoin.dev/v1alpha1", Kind: "Deployment", Name: "sales", UID: "old"}
	other := owner
	other.UID = "missing"
	spec := func(fields map[string]any) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.Object["spec"] = fields }
	}
	holder := func(uid string, generation int64) func(*unstructured.Unstructured) {
		return spec(map[string]any{"attribute": "host", "holder": map[string]any{"uid": uid, "generation": generation}})
	}
	for name, tc := range map[string]struct {
		archived     *unstructured.Unstructured
		path         []string
		want         any
		skip         string
		status       map[string]any
		laterLedgers map[string]string
	}{
		"owner":          {archived: object("Branch", owned(owner)), path: []string{"metadata", "ownerReferences"}, want: []any{map[string]any{"apiVersion": owner.APIVersion, "kind": "Deployment", "name": "sales", "uid": "new"}}},
		"missing owner":  {archived: object("Branch", owned(other)), skip: `its owner Deployment "sales" is not in the archive`},
		"foreign owner":  {archived: object("Branch", owned(metav1.OwnerReference{APIVersion: "argoproj.io/v1", Kind: "Application", UID: "x"})), path: []string{"metadata", "ownerReferences"}},
		"holder":         {archived: object("Claim", holder("old", 5)), path: []string{"spec", "holder"}, want: map[string]any{"uid": "new", "generation": int64(1)}},
		"earlier holder": {archived: object("Claim", holder("old", 4)), path: []string{"spec", "holder"}, want: map[string]any{"uid": "new", "generation": int64(0)}},
		"missing holder": {archived: object("Claim", holder("missing", 4)), skip: "its holder is not in the archive"},
		"reserved":       {archived: object("Claim", spec(map[string]any{"holder": map[string]any{"name": "id"}})), path: []string{"spec", "holder"}, want: map[string]any{"name": "id"}},
		"deprovisioned":  {archived: object("Claim", spec(map[string]any{"attribute": "ScimUser.deprovisioned", "holder": map[string]any{"uid": "missing"}})), path: []string{"spec", "holder"}, want: map[string]any{"uid": "missing"}},
		"environment":    {archived: object("Environment", spec(map[string]any{"deploymentRef": map[string]any{"name": "sales"}, "deploymentGeneration": int64(5)})), path: []string{"spec", "deploymentGeneration"}, want: int64(1)},
		"unknown":        {archived: object("Environment", spec(map[string]any{"deploymentRef": map[string]any{"name": "x"}, "deploymentGeneration": int64(5)})), path: []string{"spec", "deploymentGeneration"}, want: int64(0)},
		"written by SCIM": {archived: object("ScimUser", func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"platform.quoin.dev/modified-at": "5 now"})
		}), path: []string{"metadata", "annotations"}, want: map[string]any{"platform.quoin.dev/modified-at": "1 now"}},
		"changed later": {archived: object("ScimUser", func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"platform.quoin.dev/modified-at": "4 now"})
		}), path: []string{"metadata", "annotations"}, want: map[string]any{"platform.quoin.dev/modified-at": "0 now"}},
		"ledger": {archived: object("Account", func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"platform.quoin.dev/issued-ids": "branches=9,deployments=3"})
		}),
			laterLedgers: map[string]string{"sales": "branches=8,deployments=4,environments=1"}, path: []string{"metadata", "annotations"}, want: map[string]any{"platform.quoin.dev/issued-ids": "branches=9,deployments=4,environments=1"}},
		"first ids": {archived: object("Account", nil), laterLedgers: map[string]string{"sales": "deployments=1"}, path: []string{"metadata", "annotations"}, want: map[string]any{"platform.quoin.dev/issued-ids": "deployments=1"}},
		"status": {archived: object("Deployment", func(o *unstructured.Unstructured) {
			o.Object["status"] = map[string]any{"id": "3", "observedGeneration": int64(5), "conditions": []any{"x"}, "failed": map[string]any{"generation": int64(5)}, "failedModel": map[string]any{"generation": int64(2)}}
		}), path: []string{"status"}, status: map[string]any{"id": "3", "observedGeneration": int64(-1), "failed": map[string]any{"generation": int64(1)}, "failedModel": map[string]any{"generation": int64(0)}}},
	} {
		t.Run(name, func(t *testing.T) {
			if skip := checkRestorable(t, m, tc.archived, tc.laterLedgers, tc.path, tc.want, tc.status); skip != tc.skip {
				t.Errorf("skipped because %q, want %q", skip, tc.skip)
			}
		})
	}
}

// checkRestorable compares a field and the status of an object with what is wanted, unless it is skipped.
func checkRestorable(t *testing.T, m *mapping, archived *unstructured.Unstructured, ledgers map[string]string, path []string, want any, wantStatus map[string]any) (skip string) {
	t.Helper()
	obj, status, skip, err := m.restorable(archived, ledgers)
	if err != nil || skip != "" {
		if err != nil {
			t.Error(err)
		}
		return skip
	}
	got, _, err := unstructured.NestedFieldCopy(obj.Object, path...)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got): %v\n%s", path, err, diff)
	}
	if diff := cmp.Diff(wantStatus, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if obj.GetUID() != "" || obj.GetResourceVersion() != "" || obj.GetGeneration() != 0 || len(obj.GetManagedFields()) > 0 {
		t.Errorf("metadata %v", obj.Object["metadata"])
	}
	return ""
}

func TestIsPart(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted, live any
		want         bool
	}{
		"equal":          {map[string]any{"a": int64(1)}, map[string]any{"a": int64(1)}, true},
		"default added":  {map[string]any{"a": "x"}, map[string]any{"a": "x", "b": true}, true},
		"other value":    {map[string]any{"a": "x"}, map[string]any{"a": "y"}, false},
		"false":          {map[string]any{"a": false}, map[string]any{"a": true}, false},
		"missing":        {map[string]any{"a": "x"}, map[string]any{}, false},
		"longer list":    {[]any{"a"}, []any{"a", "b"}, false},
		"list of maps":   {[]any{map[string]any{"n": "a"}}, []any{map[string]any{"n": "a", "d": "x"}}, true},
		"map and string": {map[string]any{"a": "x"}, "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isPart(tc.wanted, tc.live); got != tc.want {
				t.Errorf("isPart is %v", got)
			}
		})
	}
}
