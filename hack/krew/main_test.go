package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestManifest: the manifest is YAML with one platform for each archive, as krew requires.
func TestManifest(t *testing.T) {
	folder := t.TempDir()
	files := []string{filepath.Join(folder, "kubectl-quoin_linux_amd64.tar.gz"), filepath.Join(folder, "kubectl-quoin_windows_arm64.tar.gz")}
	for _, file := range files {
		if err := os.WriteFile(file, []byte("archive"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	if err := write(&text, "v1.2.3", "https://example.com/v1.2.3/", files); err != nil {
		t.Fatal(err)
	}
	var got struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription string
			Platforms                 []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.UnmarshalStrict(withoutTexts(text.Bytes()), &got); err != nil {
		t.Fatalf("%v:\n%s", err, &text)
	}
	p := got.Spec.Platforms
	if got.Kind != "Plugin" || got.Metadata.Name != "quoin" || got.Spec.Version != "v1.2.3" || len(got.Spec.ShortDescription) > 50 || len(p) != 2 {
		t.Fatalf("%+v", got)
	}
	if p[0].URI != "https://example.com/v1.2.3/kubectl-quoin_linux_amd64.tar.gz" || len(p[0].SHA256) != 64 || p[0].Bin != "kubectl-quoin" || p[1].Bin != "kubectl-quoin.exe" || p[1].Selector.MatchLabels["arch"] != "arm64" {
		t.Errorf("%+v", p)
	}
}

// withoutTexts removes the fields that the test does not read.
func withoutTexts(manifest []byte) []byte {
	var all map[string]any
	_ = yaml.Unmarshal(manifest, &all)
	spec, _ := all["spec"].(map[string]any)
	for _, field := range []string{"homepage", "description", "caveats"} {
		delete(spec, field)
	}
	text, _ := yaml.Marshal(all)
	return text
}

func TestInvalid(t *testing.T) {
	for want, args := range map[string][]string{
		"must be a version":     {"1.2.3", "https://x", "kubectl-quoin_linux_amd64.tar.gz"},
		"must begin with https": {"v1.2.3", "http://x", "kubectl-quoin_linux_amd64.tar.gz"},
		"no archives":           {"v1.2.3", "https://x"},
		"the name must be":      {"v1.2.3", "https://x", "quoin.zip"},
		"no such file":          {"v1.2.3", "https://x", "kubectl-quoin_linux_amd64.tar.gz"},
	} {
		if err := write(&bytes.Buffer{}, args[0], args[1], args[2:]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
