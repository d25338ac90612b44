package plugin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/plugin/bundle/bundletest"
)

// TestOwnersAreRespected: a field that Argo CD applies is not changed without --force, and the fields of
// the plugin are those of the plugin.
func TestOwnersAreRespected(t *testing.T) {
	d := deployment("gitops", func(d *v1alpha1.Deployment) { d.Spec.ReleaseChannelVersion = "1.2.3" })
	d.APIVersion, d.Kind = v1alpha1.GroupVersion.String(), "Deployment"
	if err := k8s.Patch(t.Context(), d, client.Apply, client.FieldOwner("argocd-controller")); err != nil { //nolint:staticcheck // typed apply configurations do not exist
		t.Fatal(err)
	}
	wait(t, "gitops")
	runSteps(t, []step{
		{"owner-refused", "follow gitops -n demo"},
		{"owner-dry-run", "pin gitops 1.2.4 -n demo --dry-run --force"},
		{"owner-forced", "pin gitops 1.2.4 -n demo --force"},
		{"owner-of-other-fields", "retry gitops -n demo"},
	})
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	owned := slices.ContainsFunc(d.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == fieldowner.Plugin && strings.Contains(e.FieldsV1.GetRawString(), "releaseChannelVersion")
	})
	if !owned || d.Spec.ReleaseChannelVersion != "1.2.4" {
		t.Errorf("%q, managed fields %+v", d.Spec.ReleaseChannelVersion, d.ManagedFields)
	}
}

// TestBundle: an archive has the objects and what could not be read, and no planted secret: neither that
// of a Secret, nor copies of it in variables and events.
func TestBundle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	for _, flags := range [][]string{{"-A", "--file", file}, {"-n", namespace, "--as", "jane", "--file", file + "2"}} {
		r := quoin(t, nil, append([]string{"bundle"}, flags...)...)
		if r.code != 0 {
			t.Fatalf("%v: %+v", flags, r)
		}
		name := flags[len(flags)-1]
		files := filesOf(t, name)
		for name, text := range files {
			if strings.Contains(text, planted) || strings.Contains(text, apiKey) {
				t.Errorf("%s contains a planted secret:\n%s", name, text)
			}
			if strings.Contains(name, "secret") || strings.Contains(name, "scim") {
				t.Errorf("the archive contains %s", name)
			}
		}
		for name, wanted := range map[string]string{
			"namespaces/demo/deployments.yaml": "name: crashing", "namespaces/demo/events.yaml": "Failed to pull image", "namespaces/demo/pods.yaml": "ImagePullBackOff",
			"versions.yaml": "kubernetes: v", "check.yaml": "check: CRDs",
		} {
			if !strings.Contains(files[name], wanted) {
				t.Errorf("%v: %s does not contain %q:\n%s", flags, name, wanted, files[name])
			}
		}
	}
	if text := filesOf(t, file+"2")["problems.txt"]; !strings.Contains(text, "claims.platform.quoin.dev is forbidden") {
		t.Errorf("problems.txt of a viewer: %s", text)
	}
	if r := quoin(t, nil, "bundle", "-A", "--file", file); r.code != 1 || !strings.Contains(r.stderr, "file exists") {
		t.Errorf("overwrites an archive: %+v", r)
	}
}

// filesOf returns the files of an archive, without the name of its folder.
func filesOf(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	archive, err := bundletest.Files(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for name, text := range archive {
		_, below, _ := strings.Cut(name, "/")
		files[below] = text
	}
	return files
}
