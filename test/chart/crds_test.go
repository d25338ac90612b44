package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const keepAnnotation = "helm.sh/resource-policy"

// configCRDs returns the CRDs that controller-gen generated, by file.
func configCRDs(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(root + "/config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("CRDs: %v, %v", files, err)
	}
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		base := filepath.Base(file)
		crds[base] = only[apiextensionsv1.CustomResourceDefinition](t, readConfig(t, "crd/bases/"+base), "CustomResourceDefinition")
	}
	return crds
}

// TestCRDTemplatesMatchConfig removes the template lines and compares the rest byte by byte.
func TestCRDTemplatesMatchConfig(t *testing.T) {
	inChart, err := filepath.Glob(chartFolder + "/templates/crds/*")
	if err != nil {
		t.Fatal(err)
	}
	if want := len(configCRDs(t)); len(inChart) != want {
		t.Errorf("the chart has %d CRDs, config %d", len(inChart), want)
	}
	for _, path := range inChart {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(root, "config", "crd", "bases", filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), withoutTemplate(string(text))); diff != "" {
			t.Errorf("-config +chart of %s:\n%s", filepath.Base(path), diff)
		}
	}
}

// withoutTemplate removes the template lines from the template of a CRD.
func withoutTemplate(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		switch content := strings.TrimSpace(line); {
		case strings.HasPrefix(content, "{{-"), content == keepAnnotation+": keep", line == "  labels:\n":
		default:
			kept.WriteString(strings.ReplaceAll(line, `{{ "{{" }}`, "{{"))
		}
	}
	return kept.String()
}

// TestRenderedCRDsMatchConfig also checks crds.enabled and crds.keep.
func TestRenderedCRDsMatchConfig(t *testing.T) {
	for _, test := range []struct {
		set        string
		crds, kept bool
	}{
		{"crds.enabled=true", true, true},
		{"crds.keep=false", true, false},
		{"crds.enabled=false", false, false},
	} {
		t.Run(test.set, func(t *testing.T) {
			rendered := render(t, "--set", test.set).ofKind("CustomResourceDefinition")
			want := map[string]*apiextensionsv1.CustomResourceDefinition{}
			if test.crds {
				for _, crd := range configCRDs(t) {
					want[crd.Name] = crd
				}
			}
			if len(rendered) != len(want) {
				t.Fatalf("%d CRDs, want %d", len(rendered), len(want))
			}
			for _, object := range rendered {
				if kept := object.GetAnnotations()[keepAnnotation] == "keep"; kept != test.kept {
					t.Errorf("%s: kept %v, want %v", object.GetName(), kept, test.kept)
				}
				crd := convert[apiextensionsv1.CustomResourceDefinition](t, object)
				delete(crd.Annotations, keepAnnotation)
				crd.Labels = nil
				if diff := cmp.Diff(want[crd.Name], crd); diff != "" {
					t.Errorf("-config +chart:\n%s", diff)
				}
			}
		})
	}
}
