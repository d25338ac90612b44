package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The source and the destination of the CRDs.
const (
	configCRDs = "config/crd/bases"
	chartCRDs  = "charts/quoin/templates/crds"
)

// Template lines around and in a CRD. The CRD itself is unchanged, so that Helm installs the CRD that
// is tested in config.
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

// generateCRDs writes the CRDs to the chart's templates instead of its directory crds, whose files Helm
// installs but does not upgrade.
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

// crdTemplate returns the template of a CRD.
func crdTemplate(crd string) (string, error) {
	// The first annotations are those of the CRD: controller-gen always adds its version.
	head, tail, found := strings.Cut(crd, annotationsLine)
	if !found || strings.Contains(head, "\nspec:") {
		return "", fmt.Errorf("no metadata.annotations: not written by controller-gen?")
	}
	return crdBegin + escape(head) + annotationsLine + keepAnnotation + labelsBeforeName(escape(tail)) + crdEnd, nil
}

// labelsBeforeName inserts the chart's labels after the annotations.
func labelsBeforeName(tail string) string {
	annotations, rest, _ := strings.Cut(tail, "\n  name: ")
	return annotations + "\n" + labels + "  name: " + rest
}

// escape escapes braces in descriptions for Helm's templates.
func escape(text string) string {
	return strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
}
