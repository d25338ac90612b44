package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/operator-framework/api/crds"
	operators "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
)

const (
	version = "v1.2.3-rc.1"
	digest  = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	image   = "ghcr.io/quoin-dev/quoin:" + version + "@" + digest
)

func TestMain(m *testing.M) { apitest.Main(m) }

// makeRelease writes a release and returns its files by name. The binary is that of the test.
func makeRelease(t *testing.T) map[string][]byte {
	t.Helper()
	apitest.Server(t) // kubectl is beside its binaries
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	err = run([]string{"--root", "../..", "--out", out, "--version", version, "--digest", digest, "--date", "2026-01-02T03:04:05+01:00",
		"--kubectl", filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "--binary", binary})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(out, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestRelease: two releases of the same inputs are the same; the checksums are those of the files.
func TestRelease(t *testing.T) {
	first, second := makeRelease(t), makeRelease(t)
	var names []string
	for name := range first {
		names = append(names, name)
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs between two releases", name)
		}
		if name != checksums && !bytes.Contains(first[checksums], []byte("  "+name+"\n")) {
			t.Errorf("%s has no checksum", name)
		}
	}
	slices.Sort(names)
	want := []string{"SHA256SUMS", "install.yaml", "olm-prerequisites.yaml", "quoin-1.2.3-rc.1.tgz", "quoin-olm-bundle-1.2.3-rc.1.tgz", "quoin.cdx.json"}
	if !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
}

// TestInstallManifest applies install.yaml as a dry run with strict validation.
func TestInstallManifest(t *testing.T) {
	text := string(makeRelease(t)["install.yaml"])
	if n := strings.Count(text, ": "+image+"\n"); n != 4 || strings.Contains(text, ":v0.1.0\n") {
		t.Errorf("the image occurs %d times, want 4", n)
	}
	objects, err := split(text)
	if err != nil {
		t.Fatal(err)
	}
	if objects[0].GetKind() != "Namespace" {
		t.Errorf("the first object is a %s", objects[0].GetKind())
	}
	c := newClient(t)
	for _, u := range objects {
		dryRun(t, c, u)
		if u.GetKind() == "Namespace" {
			createNamespace(t, c, u.GetName())
		}
	}
}

// TestBundle checks the ClusterServiceVersion against its Go type and against the CRD of OLM, and that the bundle with
// its prerequisites has everything of the kustomize tree.
func TestBundle(t *testing.T) {
	files := makeRelease(t)
	bundle := unpack(t, files["quoin-olm-bundle-1.2.3-rc.1.tgz"])
	text := bundle["manifests/quoin.clusterserviceversion.yaml"]
	var csv operators.ClusterServiceVersion
	if err := yaml.UnmarshalStrict(text, &csv); err != nil {
		t.Fatal(err)
	}
	if got := csv.Spec.Version.String(); got != "1.2.3-rc.1" || csv.Name != "quoin."+version {
		t.Errorf("version %s, name %s", got, csv.Name)
	}
	strategy := csv.Spec.InstallStrategy.StrategySpec
	if len(strategy.DeploymentSpecs) != 3 || len(strategy.ClusterPermissions) != 3 || len(strategy.Permissions) != 3 {
		t.Errorf("%d deployments, %d cluster permissions, %d permissions", len(strategy.DeploymentSpecs), len(strategy.ClusterPermissions), len(strategy.Permissions))
	}
	accounts := map[string]bool{}
	for _, p := range slices.Concat(strategy.ClusterPermissions, strategy.Permissions) {
		accounts[p.ServiceAccountName] = len(p.Rules) > 0
	}
	for _, d := range strategy.DeploymentSpecs {
		if !accounts[d.Spec.Template.Spec.ServiceAccountName] {
			t.Errorf("%s runs as %q, which has no permissions", d.Name, d.Spec.Template.Spec.ServiceAccountName)
		}
		if got := d.Spec.Template.Spec.Containers[0].Image; got != image {
			t.Errorf("%s has the image %s", d.Name, got)
		}
		for _, volume := range d.Spec.Template.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				t.Errorf("%s has a PersistentVolumeClaim, which a bundle cannot contain", d.Name)
			}
		}
	}
	checkKinds(t, &csv, bundle)

	c := newClient(t)
	installCSVKind(t)
	createNamespace(t, c, csv.Namespace)
	dryRun(t, c, object(t, text))
	for name, manifest := range bundle {
		if strings.HasPrefix(name, "manifests/") && !strings.Contains(name, "clusterserviceversion") {
			u := object(t, manifest)
			if u.GetKind() == "Service" || u.GetKind() == "PodDisruptionBudget" {
				u.SetNamespace(csv.Namespace) // as OLM does
			}
			dryRun(t, c, u)
		}
	}
	prerequisites, err := split(string(files["olm-prerequisites.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range prerequisites {
		dryRun(t, c, u)
	}
}

// checkKinds checks that the bundle describes all kinds and has an example of each that users write.
func checkKinds(t *testing.T, csv *operators.ClusterServiceVersion, bundle map[string][]byte) {
	t.Helper()
	var examples []struct{ Kind string }
	if err := json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	var internal []string
	if err := json.Unmarshal([]byte(csv.Annotations["operators.operatorframework.io/internal-objects"]), &internal); err != nil {
		t.Fatal(err)
	}
	if len(csv.Spec.CustomResourceDefinitions.Owned) != len(v1alpha1.Kinds) {
		t.Errorf("%d kinds, want %d", len(csv.Spec.CustomResourceDefinitions.Owned), len(v1alpha1.Kinds))
	}
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		hasExample := slices.ContainsFunc(examples, func(e struct{ Kind string }) bool { return e.Kind == crd.Kind })
		if hasExample == slices.Contains(internal, crd.Name) {
			t.Errorf("%s has an example: %t", crd.Kind, hasExample)
		}
		if bundle["manifests/"+crd.Name+".crd.yaml"] == nil {
			t.Errorf("%s has no CRD in the bundle", crd.Name)
		}
	}
}

// TestChartArchive: the archive is that of the chart with the versions of the release.
func TestChartArchive(t *testing.T) {
	files := unpack(t, makeRelease(t)["quoin-1.2.3-rc.1.tgz"])
	var chart struct {
		Version, AppVersion string
		Annotations         map[string]string
	}
	if err := yaml.Unmarshal(files["quoin/Chart.yaml"], &chart); err != nil {
		t.Fatal(err)
	}
	if chart.Version != "1.2.3-rc.1" || chart.AppVersion != version || !strings.Contains(chart.Annotations["artifacthub.io/images"], version) {
		t.Errorf("%+v", chart)
	}
	values, err := os.ReadFile("../../charts/quoin/values.yaml")
	if err != nil || !bytes.Equal(files["quoin/values.yaml"], values) || files["quoin/templates/NOTES.txt"] == nil {
		t.Errorf("the archive has %d files: %v", len(files), err)
	}
}

// TestSBOM: the bill of materials lists the modules of the binary with their checksums.
func TestSBOM(t *testing.T) {
	bom := &cyclonedx.BOM{}
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(makeRelease(t)["quoin.cdx.json"]), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != version || bom.Metadata.Timestamp != "2026-01-02T02:04:05Z" {
		t.Errorf("%+v", bom.Metadata)
	}
	found := map[string]cyclonedx.Component{}
	for _, c := range *bom.Components {
		found[c.Name] = c
	}
	for _, name := range []string{"std", "sigs.k8s.io/yaml", "k8s.io/apimachinery"} {
		c := found[name]
		if !strings.HasPrefix(c.PackageURL, "pkg:golang/"+name+"@") || name != "std" && (c.Hashes == nil || len((*c.Hashes)[0].Value) != 64) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestRejectsInvalidArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no version": {[]string{"--binary", "x"}, "--version"},
		"no v":       {[]string{"--binary", "x", "--version", "1.2.3"}, "v1.2.3"},
		"digest":     {[]string{"--binary", "x", "--version", version, "--digest", "sha256:1"}, "--digest"},
		"no binary":  {[]string{"--version", version}, "--binary"},
		"date":       {[]string{"--date", "today"}, "date"},
		"argument":   {[]string{"--binary", "x", "--version", version, "y"}, "unexpected argument"},
		"kubectl":    {[]string{"--root", "../..", "--out", t.TempDir(), "--binary", "x", "--version", version, "--kubectl", "/nowhere"}, "install.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestOtherKindsAreRefused: an object that bundles do not support must not be left out silently.
func TestOtherKindsAreRefused(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "PersistentVolumeClaim"}}
	if _, err := newBundle(&release{}, []*unstructured.Unstructured{u}); err == nil || !strings.Contains(err.Error(), "PersistentVolumeClaim") {
		t.Errorf("error %v", err)
	}
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(apitest.Server(t), client.Options{Scheme: apitest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// installCSVKind installs the CRD of ClusterServiceVersions.
func installCSVKind(t *testing.T) {
	t.Helper()
	_, err := envtest.InstallCRDs(apitest.Server(t), envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crds.ClusterServiceVersion()}})
	if err != nil {
		t.Fatal(err)
	}
}

// createNamespace creates a namespace unless it exists.
func createNamespace(t *testing.T, c client.Client, name string) {
	t.Helper()
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetName(name)
	if err := c.Create(context.WithoutCancel(t.Context()), ns); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

// dryRun applies an object as a dry run with strict validation.
func dryRun(t *testing.T, c client.Client, u *unstructured.Unstructured) {
	t.Helper()
	options := []client.PatchOption{client.FieldOwner("kubectl"), client.ForceOwnership, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)}
	//nolint:staticcheck // The typed Apply has no option for strict validation.
	if err := c.Patch(t.Context(), u.DeepCopy(), client.Apply, options...); err != nil {
		t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

func object(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	objects, err := split(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects[0]
}

// unpack returns the files of a tar.gz archive.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}
