package dbt

import (
	"bytes"
	"errors"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// FuzzConvert: whatever a manifest contains, the result is an *Error, or files that are valid YAML with
// one cube each, unique names, no template code, and the same bytes every time.
func FuzzConvert(f *testing.F) {
	f.Add(manifestOf("postgres", model("orders", "customer_id", "order_id"), model("customers", "id integer"), relationship("orders", "customer_id", "customers", "id")))
	f.Add(manifestOf("snowflake", with(model("{{ x }}", `a"b {%`, "\x00"), object{"description": "{{ {% {# \u2028 #} %} }} ${x} {CUBE} \\ 😀\n---\n- &a *a !!x"})))
	f.Add(manifestOf("bigquery", with(model("x: y", "true", "null", "1e3"), object{"alias": "- a\n  b: c"})))
	f.Add([]byte(`{"metadata":{"dbt_schema_version":"/dbt/manifest/v12.json"},"nodes":{"a":{"resource_type":"model","name":"a"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first *Model
		for range 2 {
			m, err := Read(bytes.NewReader(data))
			var out *Model
			if err == nil {
				out, err = m.Convert(Options{DbtOptions: v1alpha1.DbtOptions{ReverseJoins: ptr.To(true)}})
			}
			if err != nil {
				var rejected *Error
				if !errors.As(err, &rejected) {
					t.Fatalf("%T: %v", err, err)
				}
				return
			}
			if first == nil {
				first = out
				checkFiles(t, out)
				continue
			}
			for i := range first.Files {
				if first.Files[i].Path != out.Files[i].Path || !bytes.Equal(first.Files[i].Content, out.Files[i].Content) {
					t.Errorf("%s differs", first.Files[i].Path)
				}
			}
		}
	})
}
