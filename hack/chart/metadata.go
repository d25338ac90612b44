package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	chartMetadata = "charts/quoin/Chart.yaml"
	crdsBegin     = "  artifacthub.io/crds: |\n"
)

// generateMetadata writes the annotation artifacthub.io/crds of Chart.yaml, which is its last: the
// names come from the table of kinds, the descriptions from the CRDs.
func generateMetadata(root string, files map[string]string) error {
	text, err := os.ReadFile(filepath.Join(root, chartMetadata))
	if err != nil {
		return err
	}
	before, _, found := strings.Cut(string(text), crdsBegin)
	if !found {
		return fmt.Errorf("%s: no annotation artifacthub.io/crds", chartMetadata)
	}
	var b strings.Builder
	b.WriteString(before + crdsBegin)
	for _, k := range slices.SortedFunc(slices.Values(v1alpha1.Kinds), func(a, b v1alpha1.Kind) int { return strings.Compare(a.Name(), b.Name()) }) {
		description, err := describe(root, k)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "    - kind: %s\n      version: %s\n      name: %s.%s\n      displayName: %s\n      description: %s\n",
			k.Name(), v1alpha1.GroupVersion.Version, k.Plural, v1alpha1.Group, k.DisplayName, description)
	}
	files[chartMetadata] = b.String()
	return nil
}

// describe returns the first sentence of the description of a kind's CRD, quoted for YAML.
func describe(root string, k v1alpha1.Kind) (string, error) {
	path := filepath.Join(root, configCRDs, fmt.Sprintf("%s_%s.yaml", v1alpha1.Group, k.Plural))
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	description := strings.Join(strings.Fields(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description), " ")
	sentence, _, _ := strings.Cut(description, ". ")
	return fmt.Sprintf("%q", strings.TrimSuffix(sentence, ".")), nil
}
