package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What config/samples is written for: the registry and the account's host of a
// cluster with the documented ports.
const (
	samplesRegistry = "127.0.0.1:15000"
	samplesHost     = sampleHost + ":18443"
)

// sampleManifests joins the manifests of a folder, in the order of their file
// names, and puts the real addresses of the registry and of the account into
// them.
func sampleManifests(folder, registry, host string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return "", err
	}
	addresses := strings.NewReplacer(samplesRegistry, registry, samplesHost, host)
	var text strings.Builder
	for _, path := range paths {
		if filepath.Base(path) == "kustomization.yaml" {
			continue
		}
		manifest, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "---\n%s\n", strings.TrimSpace(addresses.Replace(string(manifest))))
	}
	if text.Len() == 0 {
		return "", fmt.Errorf("no samples in %s", folder)
	}
	return text.String(), nil
}
