package api_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	// samplesFolder has the samples that make up applies.
	samplesFolder = "../../config/samples"
	// moreSamplesFolder has examples of everything else.
	moreSamplesFolder = samplesFolder + "/more"
	// sampleRegistry is the registry in all samples. The local cluster replaces it with the real address.
	sampleRegistry = "127.0.0.1:15000"
)

// documents returns the objects of a YAML file.
func documents(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n") {
		objects = append(objects, object(t, document))
	}
	return objects
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSamplesAreValid applies every sample server-side, with strict validation.
func TestSamplesAreValid(t *testing.T) {
	s := server(t)
	for _, file := range append(yamlFiles(t, samplesFolder), yamlFiles(t, moreSamplesFolder)...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, u := range documents(t, readFile(t, file)) {
				s.applyStrictly(t, u)
			}
		})
	}
}

// applyStrictly applies an object as a dry run. Namespaces are created, because other objects need them.
func (s *apiServer) applyStrictly(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	options := []client.PatchOption{client.FieldOwner("kubectl"), client.FieldValidation(metav1.FieldValidationStrict)}
	if u.GetKind() != "Namespace" {
		options = append(options, client.DryRunAll)
	}
	//nolint:staticcheck // The typed Apply has no option for strict validation.
	if err := s.Patch(testContext(t), u.DeepCopy(), client.Apply, options...); err != nil {
		t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

func TestSamplesReferToEachOther(t *testing.T) {
	var names []string
	exists := map[string]bool{}
	var deployments []*unstructured.Unstructured
	for _, file := range yamlFiles(t, samplesFolder) {
		names = append(names, filepath.Base(file))
		for _, u := range documents(t, readFile(t, file)) {
			exists[u.GetKind()+" "+u.GetName()] = true
			if u.GetKind() == "Deployment" {
				deployments = append(deployments, u)
			}
		}
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(samplesFolder, "kustomization.yaml"))), &kustomization); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(names, kustomization.Resources); diff != "" {
		t.Errorf("resources of kustomization.yaml (-files +listed):\n%s", diff)
	}
	for _, d := range deployments {
		for kind, path := range map[string][]string{
			"ReleaseChannel": {"spec", "releaseChannel"},
			"ConfigMap":      {"spec", "model", "configMapRef", "name"},
		} {
			name, set, _ := unstructured.NestedString(d.Object, path...)
			if set && !exists[kind+" "+name] {
				t.Errorf("Deployment %s: %s is %q, which is not among the samples", d.GetName(), strings.Join(path, "."), name)
			}
		}
	}
}

// TestEveryKindHasASample checks that there is a sample of each kind that users write.
func TestEveryKindHasASample(t *testing.T) {
	have := map[string]bool{}
	for _, file := range append(yamlFiles(t, samplesFolder), yamlFiles(t, moreSamplesFolder)...) {
		for _, u := range documents(t, readFile(t, file)) {
			have[u.GetKind()] = true
		}
	}
	for _, k := range v1alpha1.Kinds {
		written := strings.Contains(k.WrittenBy, "users") || strings.Contains(k.WrittenBy, "administrators")
		if have[k.Name()] != written {
			t.Errorf("%s: has a sample: %t, want %t", k.Name(), have[k.Name()], written)
		}
	}
}

// Other addresses would not be replaced by make up with --auto-ports.
func TestSamplesNameOneRegistry(t *testing.T) {
	image := regexp.MustCompile(`(?:[iI]mageRepository|releaseChannelVersion): *(\S+/\S+)`)
	found := 0
	for _, file := range append(yamlFiles(t, samplesFolder), yamlFiles(t, moreSamplesFolder)...) {
		for _, match := range image.FindAllStringSubmatch(readFile(t, file), -1) {
			found++
			if !strings.HasPrefix(match[1], sampleRegistry+"/") {
				t.Errorf("%s: %s is not in %s", filepath.Base(file), match[1], sampleRegistry)
			}
		}
	}
	if found == 0 {
		t.Error("no sample names an image")
	}
}
