package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// samplesRegistry is the registry that config/samples is written for: that of
// a cluster with the documented ports.
const samplesRegistry = "127.0.0.1:15000"

// sampleManifests joins the manifests of a folder, in the order of their file
// names, and puts the registry's real address into them.
func sampleManifests(folder, registry string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, path := range paths {
		if filepath.Base(path) == "kustomization.yaml" {
			continue
		}
		manifest, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "---\n%s\n", strings.TrimSpace(strings.ReplaceAll(string(manifest), samplesRegistry, registry)))
	}
	if text.Len() == 0 {
		return "", fmt.Errorf("no samples in %s", folder)
	}
	return text.String(), nil
}
