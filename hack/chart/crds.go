package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where the CRDs come from and go to.
const (
	configCRDs = "config/crd/bases"
	chartCRDs  = "charts/quoin/templates/crds"
)

// Template lines around and in a CRD. The CRD itself stays as controller-gen wrote it, byte by
// byte: what is checked in config is what Helm installs.
const (
	crdBegin = "{{- if .Values.crds.enabled }}\n"
	crdEnd   = "{{- end }}\n"

	annotationsLine = "\n  annotations:\n"
	keepAnnotation  = "    {{- if .Values.crds.keep }}\n" +
		"    helm.sh/resource-policy: keep\n" +
		"    {{- end }}\n"
	labels = "  labels:\n" +
		"    {{- include \"quoin.labels\" (dict \"root\" .) | nindent 4 }}\n"
)

// generateCRDs puts the CRDs into the chart's templates, not into its folder crds: Helm
// installs what lies there but never upgrades it.
func generateCRDs(root string, files map[string]string) error {
	bases, err := filepath.Glob(filepath.Join(root, configCRDs, "*.yaml"))
	if err != nil {
		return err
	}
	if len(bases) == 0 {
		return fmt.Errorf("no CRDs in %s: run controller-gen first", configCRDs)
	}
	for _, base := range bases {
		text, err := os.ReadFile(base)
		if err != nil {
			return err
		}
		template, err := crdTemplate(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", base, err)
		}
		files[filepath.Join(chartCRDs, filepath.Base(base))] = template
	}
	return nil
}

// crdTemplate is the CRD with guards around it.
func crdTemplate(crd string) (string, error) {
	// The first annotations are those of the CRD: controller-gen always writes its version.
	head, tail, found := strings.Cut(crd, annotationsLine)
	if !found || strings.Contains(head, "\nspec:") {
		return "", fmt.Errorf("no metadata.annotations: not written by controller-gen?")
	}
	return crdBegin + escape(head) + annotationsLine + keepAnnotation + labelsBeforeName(escape(tail)) + crdEnd, nil
}

// labelsBeforeName adds the chart's labels after the annotations.
func labelsBeforeName(tail string) string {
	annotations, rest, _ := strings.Cut(tail, "\n  name: ")
	return annotations + "\n" + labels + "  name: " + rest
}

// escape makes braces in descriptions survive Helm's templates.
func escape(text string) string {
	return strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
}
