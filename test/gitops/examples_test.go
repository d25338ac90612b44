package gitops_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	examplesFolder = "../../config/examples"
	chartFolder    = "../../charts/quoin"
)

// exampleVersions are the API versions of the objects of Argo CD and Flux.
var exampleVersions = map[string]string{
	"Application": "argoproj.io/v1alpha1", "ApplicationSet": "argoproj.io/v1alpha1",
	"GitRepository": "source.toolkit.fluxcd.io/v1", "HelmRelease": "helm.toolkit.fluxcd.io/v2", "Kustomization": "kustomize.toolkit.fluxcd.io/v1",
}

// TestExamples: the examples name kinds that exist, values that the chart has, and the version of the chart.
func TestExamples(t *testing.T) {
	chartVersion, _, _ := unstructured.NestedString(parse(t, readFile(t, chartFolder+"/Chart.yaml")), "appVersion")
	values := parse(t, readFile(t, chartFolder+"/values.yaml"))
	for _, u := range exampleObjects(t) {
		if want := exampleVersions[u.GetKind()]; u.GetAPIVersion() != want {
			t.Errorf("%s: apiVersion %q, want %q", name(u), u.GetAPIVersion(), want)
		}
		for _, path := range [][]string{{"spec", "values"}, {"spec", "source", "helm", "valuesObject"}} {
			if given, found, _ := unstructured.NestedMap(u.Object, path...); found {
				for _, unknown := range unknownValues(values, given, "") {
					t.Errorf("%s: the chart has no value %s", name(u), unknown)
				}
			}
		}
		for _, path := range [][]string{{"spec", "source", "targetRevision"}, {"spec", "ref", "tag"}} {
			if version, found, _ := unstructured.NestedString(u.Object, path...); found && u.GetName() == "quoin" && version != chartVersion {
				t.Errorf("%s: %s is %s, the chart has %s", name(u), strings.Join(path, "."), version, chartVersion)
			}
		}
	}
}

// TestFluxWaitsForSamples: the health checks of the example name samples.
func TestFluxWaitsForSamples(t *testing.T) {
	w := &world{registry: "127.0.0.1:15000", git: "git.quoin.localhost:15080"}
	var known []string
	for _, sample := range w.samples(t) {
		known = append(known, strings.Join([]string{sample.GetAPIVersion(), sample.GetKind(), sample.GetNamespace(), sample.GetName()}, " "))
	}
	found := 0
	for _, u := range exampleObjects(t) {
		checks, _, _ := unstructured.NestedSlice(u.Object, "spec", "healthChecks")
		for _, check := range checks {
			found++
			c := &unstructured.Unstructured{Object: check.(map[string]any)}
			text := func(field string) string { value, _, _ := unstructured.NestedString(c.Object, field); return value }
			if key := strings.Join([]string{text("apiVersion"), text("kind"), text("namespace"), text("name")}, " "); !slices.Contains(known, key) {
				t.Errorf("%s: no sample %s", name(u), key)
			}
		}
	}
	if found == 0 {
		t.Error("no example has health checks")
	}
}

// TestSyncWaves: Argo CD applies what an object needs in an earlier wave.
func TestSyncWaves(t *testing.T) {
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("KUBEBUILDER_ASSETS is not set")
		}
		t.Skip("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds kubectl")
	}
	out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", examplesFolder+"/argocd/account").Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v", err)
	}
	waves := map[string][]int{}
	for _, u := range split(t, string(out)) {
		wave, err := strconv.Atoi(cmp.Or(u.GetAnnotations()["argocd.argoproj.io/sync-wave"], "0"))
		if err != nil {
			t.Errorf("%s: %v", name(u), err)
		}
		waves[u.GetKind()] = append(waves[u.GetKind()], wave)
		if protected := strings.Contains(u.GetAnnotations()["argocd.argoproj.io/sync-options"], "Prune=confirm"); protected != (u.GetKind() == "Account") {
			t.Errorf("%s: protected from pruning: %t", name(u), protected)
		}
	}
	order := [][]string{{"Namespace"}, {"Account", "ReleaseChannel", "ModelEndpoint"}, {"ConfigMap", "Secret", "RoleBinding", "AccountRole", "ApiKey"}, {"Deployment"}, {"Branch", "Agent"}}
	last, kinds := -1000, 0
	for _, together := range order {
		highest := last
		for _, kind := range together {
			kinds++
			if len(waves[kind]) == 0 || slices.Min(waves[kind]) <= last {
				t.Errorf("%s is in the waves %v, want later than %d", kind, waves[kind], last)
				continue
			}
			highest = max(highest, slices.Max(waves[kind]))
		}
		last = highest
	}
	if kinds != len(waves) {
		t.Errorf("kinds without an order: %v of %v", len(waves)-kinds, waves)
	}
}

// exampleObjects returns the objects of the examples for Argo CD and Flux.
func exampleObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(examplesFolder + "/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		all = append(all, split(t, readFile(t, file))...)
	}
	return all
}

// split returns the objects of a text with several YAML documents.
func split(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n") {
		all = append(all, &unstructured.Unstructured{Object: parse(t, document)})
	}
	return all
}

// unknownValues returns the names of values that the chart does not have.
func unknownValues(known, given map[string]any, prefix string) []string {
	var unknown []string
	for key, value := range given {
		inner, exists := known[key]
		nested, isMap := value.(map[string]any)
		below, _ := inner.(map[string]any)
		switch {
		case !exists:
			unknown = append(unknown, prefix+key)
		case isMap && len(below) > 0:
			unknown = append(unknown, unknownValues(below, nested, prefix+key+".")...)
		}
	}
	return unknown
}

// TestUnknownValuesAreFound: the check of values finds unknown ones, also below others.
func TestUnknownValuesAreFound(t *testing.T) {
	var known, given map[string]any
	for text, target := range map[string]*map[string]any{"{a: {b: 1}, c: {}}": &known, "{a: {x: 1}, c: {free: 1}, d: 1}": &given} {
		if err := yaml.Unmarshal([]byte(text), target); err != nil {
			t.Fatal(err)
		}
	}
	got := unknownValues(known, given, "")
	slices.Sort(got)
	if want := []string{"a.x", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
