package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestArgumentsAreValid passes the arguments of the Deployments to `quoin`.
func TestArgumentsAreValid(t *testing.T) {
	binary := buildQuoin(t)
	check := func(t *testing.T, deployment *appsv1.Deployment) {
		t.Helper()
		// With -h the program parses the arguments before it, and rejects unknown ones.
		args := append(slices.Clone(deployment.Spec.Template.Spec.Containers[0].Args), "-h")
		if output, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput(); err != nil {
			t.Errorf("quoin %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	t.Run("config", func(t *testing.T) {
		for _, file := range components {
			check(t, only[appsv1.Deployment](t, readConfig(t, "manager/"+file+".yaml"), "Deployment"))
		}
	})
	eachValues(t, func(t *testing.T, args []string) {
		for _, object := range render(t, args...).ofKind("Deployment") {
			check(t, convert[appsv1.Deployment](t, object))
		}
	})
}

// TestProjectFileIsCurrent compares PROJECT with the CRDs and the controllers.
func TestProjectFileIsCurrent(t *testing.T) {
	var project struct {
		Domain, ProjectName, Repo, Version string
		Layout                             []string
		Resources                          []struct {
			API struct {
				CRDVersion string
				Namespaced bool
			}
			Controller                         bool
			Domain, Group, Kind, Path, Version string
		}
	}
	text, err := os.ReadFile(root + "/PROJECT")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &project); err != nil {
		t.Fatal(err)
	}
	if project.Version != "3" || project.Domain != "quoin.dev" || !cmp.Equal(project.Layout, []string{"go.kubebuilder.io/v4"}) {
		t.Errorf("version %q, domain %q, layout %v", project.Version, project.Domain, project.Layout)
	}
	type kind struct{ Namespaced, Controller bool }
	got, want := map[string]kind{}, map[string]kind{}
	for _, resource := range project.Resources {
		got[resource.Kind] = kind{resource.API.Namespaced, resource.Controller}
		if resource.Path != project.Repo+"/api/"+resource.Version || resource.Group+"."+resource.Domain != "platform.quoin.dev" {
			t.Errorf("%s: path %q, group %q, domain %q", resource.Kind, resource.Path, resource.Group, resource.Domain)
		}
	}
	for _, crd := range configCRDs(t) {
		_, err := os.Stat(filepath.Join(root, "controllers", strings.ToLower(crd.Spec.Names.Kind)))
		want[crd.Spec.Names.Kind] = kind{crd.Spec.Scope == apiextensionsv1.NamespaceScoped, err == nil}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-repository +PROJECT:\n%s", diff)
	}
}

// TestChartMetadataIsCurrent compares Chart.yaml with the CRDs and the image.
func TestChartMetadataIsCurrent(t *testing.T) {
	var chart struct {
		AppVersion  string
		Annotations map[string]string
	}
	text, err := os.ReadFile(chartFolder + "/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	var listed []struct{ Kind, Name, Version string }
	if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crds"]), &listed); err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, crd := range listed {
		got[crd.Name] = crd.Kind + " " + crd.Version
	}
	for _, crd := range configCRDs(t) {
		want[crd.Name] = crd.Spec.Names.Kind + " " + crd.Spec.Versions[0].Name
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacthub.io/crds: -CRDs +Chart.yaml:\n%s", diff)
	}
	image := "ghcr.io/quoin-dev/quoin:" + chart.AppVersion
	if !strings.Contains(chart.Annotations["artifacthub.io/images"], "image: "+image+"\n") {
		t.Errorf("artifacthub.io/images does not name %s", image)
	}
	kustomization, err := os.ReadFile(root + "/config/manager/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(kustomization), "newTag: "+chart.AppVersion+"\n") {
		t.Errorf("config/manager does not deploy %s, the chart's appVersion", chart.AppVersion)
	}
}

// TestDockerfileCopiesAllPackages finds packages that are missing in the build of the image.
func TestDockerfileCopiesAllPackages(t *testing.T) {
	text, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "./cmd/quoin")
	list.Dir = root
	packages, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(packages)) {
		folder, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "github.com/quoin-dev/quoin"), "/"), "/")
		if folder != "" && !strings.Contains(string(text), "\nCOPY "+folder+" "+folder+"\n") {
			t.Errorf("%s: the Dockerfile does not copy %s", path, folder)
		}
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "FROM ") && !strings.Contains(line, "@sha256:") {
			t.Errorf("not pinned by digest: %s", line)
		}
	}
	if !strings.Contains(string(text), "\nUSER 65532:65532\n") {
		t.Error("the image's user is not 65532")
	}
}

// TestKustomizationsAreComplete finds files that no kustomization names.
func TestKustomizationsAreComplete(t *testing.T) {
	for folder, pattern := range map[string]string{"crd": "bases/*.yaml", "rbac": "*.yaml", "manager": "*.yaml", "prometheus": "*.yaml", "network-policy": "*.yaml", "aggregation": "*.yaml", "audit": "*.yaml"} {
		var kustomization struct{ Resources []string }
		text, err := os.ReadFile(filepath.Join(root, "config", folder, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &kustomization); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(root, "config", folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, file := range files {
			name, err := filepath.Rel(filepath.Join(root, "config", folder), file)
			if err != nil {
				t.Fatal(err)
			}
			if name != "kustomization.yaml" {
				want = append(want, name)
			}
		}
		slices.Sort(kustomization.Resources)
		if diff := cmp.Diff(want, kustomization.Resources); diff != "" {
			t.Errorf("-files +config/%s/kustomization.yaml:\n%s", folder, diff)
		}
	}
}
