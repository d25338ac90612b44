// Package chart_test renders the Helm chart and the kustomize tree, checks the objects, and installs them in a real
// kube-apiserver.
package chart_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Folders, relative to this package.
const (
	root        = "../.."
	chartFolder = root + "/charts/quoin"
	valueFiles  = "testdata/values/*.yaml"
)

// Names with which the chart and the kustomize tree render the same objects.
const (
	releaseName      = "quoin"
	releaseNamespace = "quoin-system"
)

// servers are the components that serve HTTPS; components are all components with a Deployment.
var (
	servers    = []string{"apiserver", "gateway"}
	components = append([]string{"controller"}, servers...)
)

// helmBinary builds the pinned Helm, which takes about a minute the first time.
var helmBinary = sync.OnceValues(func() (string, error) {
	binary, err := filepath.Abs(filepath.Join(root, "bin", "helm"))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return "", err
	}
	script := filepath.Join(root, "hack", "tools", "helm", "build.sh")
	fmt.Fprintln(os.Stderr, "building the pinned Helm if necessary (a minute)")
	if output, err := exec.CommandContext(context.Background(), script, binary).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", script, err, output)
	}
	return binary, nil
})

// helm runs Helm and returns its stdout. The error contains its stderr.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary, err := helmBinary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary, args...)
	home := t.TempDir()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w\n%s", args[0], err, stderr.String())
	}
	return stdout.String(), nil
}

// mustHelm runs Helm and fails the test on errors.
func mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	output, err := helm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// render returns the chart's objects.
func render(t *testing.T, args ...string) objects {
	t.Helper()
	return parse(t, mustHelm(t, append([]string{"template", releaseName, chartFolder, "--namespace", releaseNamespace}, args...)...))
}

// eachValues runs the test with the default values and with every values file.
func eachValues(t *testing.T, test func(t *testing.T, args []string)) {
	t.Helper()
	files, err := filepath.Glob(valueFiles)
	if err != nil || len(files) == 0 {
		t.Fatalf("values files: %v, %v", files, err)
	}
	t.Run("defaults", func(t *testing.T) { test(t, nil) })
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { test(t, []string{"--values", file}) })
	}
}

// objects are Kubernetes objects in the order of a manifest.
type objects []*unstructured.Unstructured

// parse reads a manifest. Duplicate keys and documents without a kind are errors.
func parse(t *testing.T, manifest string) objects {
	t.Helper()
	var all objects
	for _, document := range bytes.Split([]byte(manifest), []byte("\n---\n")) {
		content := map[string]any{}
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(content) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: content}
		if object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "" {
			t.Fatalf("no kind, no apiVersion or no name:\n%s", document)
		}
		all = append(all, object)
	}
	return all
}

// ofKind returns the objects of a kind.
func (o objects) ofKind(kind string) objects {
	var found objects
	for _, object := range o {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	return found
}

// named returns the objects with a name.
func (o objects) named(name string) objects {
	var found objects
	for _, object := range o {
		if object.GetName() == name {
			found = append(found, object)
		}
	}
	return found
}

// of returns the objects of a component.
func (o objects) of(component string) objects {
	var found objects
	for _, object := range o {
		if object.GetLabels()["app.kubernetes.io/component"] == component {
			found = append(found, object)
		}
	}
	return found
}

// only returns the only object of a kind.
func only[T any](t *testing.T, o objects, kind string) *T {
	t.Helper()
	found := o.ofKind(kind)
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s, want 1", len(found), kind)
	}
	return convert[T](t, found[0])
}

// convert converts an object to its type. Unknown fields are errors.
func convert[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return typed
}

// readConfig parses a file of the kustomize tree.
func readConfig(t *testing.T, path string) objects {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config", path))
	if err != nil {
		t.Fatalf("run make generate: %v", err)
	}
	return parse(t, string(text))
}

// mustYAML returns the YAML of a value.
func mustYAML(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
