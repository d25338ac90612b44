package plugin_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// TestOlderCRDs: a write of a field that the installed CRDs do not have fails in one line that names the field, and changes
// nothing. kube-apiserver would drop the field without strict validation, and the command would report a change.
func TestOlderCRDs(t *testing.T) {
	older := cluster.Another(t)
	createUnheld(t, older)
	for _, tt := range []struct {
		name, crd, field string
		args             []string
	}{
		{"error-older-crds-patch", "deployments", "hold", []string{"hold", "sales", "-n", namespace}},
		{"error-older-crds-create", "apikeys", "deployments", []string{"keys", "create", "ci", "-n", namespace, "--deployment", "sales"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			variables := []string{"KUBECONFIG=" + older.Kubeconfig()}
			dryRun := append(slices.Clone(tt.args), "--dry-run")
			if r := quoin(t, variables, dryRun...); r.code != 0 {
				t.Fatalf("with the field: %+v", r)
			}
			removeField(t, older, tt.crd, tt.field)
			// kube-apiserver has the new schema a moment later.
			if err := apiclient.Eventually(func() error {
				if quoin(t, variables, dryRun...).code == 0 {
					return errors.New("the plugin reports a change of a field that the CRD does not have")
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			r := quoin(t, variables, tt.args...)
			golden(t, tt.name, r, tt.args)
			if r.code != 1 || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
	keys := &v1alpha1.ApiKeyList{}
	if err := older.Client.List(t.Context(), keys); err != nil || len(keys.Items) != 0 {
		t.Errorf("%d keys, %v", len(keys.Items), err)
	}
	d := &v1alpha1.Deployment{}
	if err := older.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "sales"}, d); err != nil || d.Generation != 1 {
		t.Errorf("the deployment has generation %d, %v", d.Generation, err)
	}
}

// createUnheld creates a channel and a deployment without controllers: the plugin decides with what their status says.
func createUnheld(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	const image = "registry.example.com/cube:v1.2.3"
	channel := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}, Spec: v1alpha1.ReleaseChannelSpec{ImageRepository: "registry.example.com/cube"}}
	d := deployment("sales", nil)
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, channel, d} {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	before, released := d.DeepCopy(), channel.DeepCopy()
	channel.Status.LatestVersion = "1.2.3"
	channel.Status.Versions = []v1alpha1.ChannelVersion{{Version: "1.2.3", Image: image, FirstSeen: metav1.Now()}}
	d.Status.CurrentVersion = "1.2.3"
	d.Status.History = []v1alpha1.VersionRun{{Version: "1.2.3", ReleaseChannel: "stable", Image: image, CompletionTime: metav1.Now()}}
	if err := c.Client.Status().Patch(t.Context(), channel, client.MergeFrom(released)); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// removeField removes a field of spec from a CRD, which is then that of an earlier release.
func removeField(t *testing.T, c *clustertest.Cluster, plural, field string) {
	t.Helper()
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + v1alpha1.GroupVersion.Group}}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	patch := `[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/` + field + `"}]`
	if err := c.Client.Patch(t.Context(), crd, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}
