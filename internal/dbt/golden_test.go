package dbt

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden converts manifests that hack/dbt/manifests has several versions of dbt write.
func TestGolden(t *testing.T) {
	manifests, err := filepath.Glob("testdata/manifest-*.json")
	if err != nil || len(manifests) < 3 {
		t.Fatalf("%d manifests: %v", len(manifests), err)
	}
	for _, name := range manifests {
		t.Run(filepath.Base(name), func(t *testing.T) {
			source, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = source.Close() }()
			m, err := Read(source)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(m.Stats.DbtVersion, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "manifest-"), ".json")) || m.Stats.Sources != 2 || m.Stats.Macros == 0 {
				t.Errorf("%+v", m.Stats)
			}
			for suffix, o := range map[string]Options{"": {}, "-reverse": {DbtOptions: v1alpha1.DbtOptions{ReverseJoins: ptr.To(true), MartsOnly: ptr.To(true)}}} {
				out, err := m.Convert(o)
				if err != nil {
					t.Fatal(err)
				}
				checkFiles(t, out)
				compare(t, strings.TrimSuffix(name, ".json")+suffix+".golden", textOf(out))
			}
		})
	}
}

// textOf returns the files and warnings of a model in one text.
func textOf(m *Model) string {
	var text strings.Builder
	for _, f := range m.Files {
		text.WriteString("==== " + f.Path + "\n" + string(f.Content))
	}
	for _, warning := range m.Warnings {
		text.WriteString("==== warning: " + warning + "\n")
	}
	return text.String()
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}
