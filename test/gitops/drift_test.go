package gitops_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// The field managers of the GitOps tools.
const (
	argoCD = "argocd-controller"
	flux   = "kustomize-controller"
)

// readySamples are samples that become Ready, so that the controllers have written everything they write. The others
// depend on servers that do not exist here.
var readySamples = []string{
	"Account demo", "Account acme", "ReleaseChannel latest", "ReleaseChannel release", "Deployment analytics", "Deployment orders", "Deployment pinned",
	"Branch orders-next", "ApiKey admin", "ApiKey scim", "ScimUser 2819c223-7f76-453a-919d-413861904646", "ScimGroup e9e30dba-f08f-4109-8486-d5c6a331660a",
}

// steadyRounds is the number of times that the samples are applied after the controllers have settled.
const steadyRounds = 5

// TestSamplesDoNotDrift: a GitOps tool that applies the samples again and again, during the rollouts and after them,
// changes nothing and sees no difference, and Quoin changes no field that it applies.
func TestSamplesDoNotDrift(t *testing.T) {
	for _, manager := range []string{argoCD, flux} {
		t.Run(manager, func(t *testing.T) {
			w := newWorld(t)
			w.createNamespaces(t, "acme", "attributes") // see the comments of these samples
			samples := w.samples(t)
			w.settle(t, samples, manager)
			for range steadyRounds {
				w.checkRound(t, samples, manager)
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
}

// TestDriftIsFound: the checks of TestSamplesDoNotDrift find a changed, a removed and an additional value.
func TestDriftIsFound(t *testing.T) {
	w := newWorld(t)
	sample := w.samples(t)[slices.IndexFunc(w.samples(t), func(u *unstructured.Unstructured) bool { return u.GetKind() == "Account" })]
	w.apply(t, sample, flux)
	for _, patch := range []string{
		`{"spec":{"displayName":"Other"}}`,
		`{"spec":{"displayName":null}}`,
		`{"spec":{"auditLog":{"enabled":false}}}`,
	} {
		if err := w.Patch(t.Context(), sample.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl-edit")); err != nil {
			t.Fatal(err)
		}
		live := w.live(t, sample)
		if diff := threeWay(t, sample, live); diff == "{}" {
			t.Errorf("%s: the three-way diff is empty", patch)
		}
		if diff := w.dryRun(t, sample, live, flux, client.ForceOwnership); diff == "" {
			t.Errorf("%s: the server-side diff is empty", patch)
		}
		w.apply(t, sample, flux, client.ForceOwnership)
		if diff := threeWay(t, sample, w.live(t, sample)); diff != "{}" {
			t.Errorf("%s: after applying it again: %s", patch, diff)
		}
	}
}

// samples returns the objects of config/samples and config/samples/more with the addresses of the servers, in the order
// of their files.
func (w *world) samples(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, folder := range []string{"../../config/samples", "../../config/samples/more"} {
		files, err := filepath.Glob(folder + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("no samples in %s: %v", folder, err)
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			text := strings.NewReplacer("127.0.0.1:15000", w.registry, "git.quoin.localhost:15080", w.git).Replace(readFile(t, file))
			all = append(all, split(t, text)...)
		}
	}
	return all
}

// settle applies the samples until those of readySamples are Ready. The generation of an object must not change.
func (w *world) settle(t *testing.T, samples []*unstructured.Unstructured, manager string) {
	t.Helper()
	var notReady []string
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		notReady = nil
		for _, sample := range samples {
			live := w.apply(t, sample, manager)
			if live.GetGeneration() > 1 {
				t.Fatalf("%s has generation %d", name(sample), live.GetGeneration())
			}
			if slices.Contains(readySamples, name(sample)) && !isReady(live) {
				notReady = append(notReady, name(sample))
			}
		}
		if len(notReady) == 0 {
			return
		}
		if err := clustertest.MakeWorkloadsReady(t.Context(), w.Client, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("not Ready: %v", notReady)
}

// checkRound applies every sample again and fails the test if anything changes.
func (w *world) checkRound(t *testing.T, samples []*unstructured.Unstructured, manager string) {
	t.Helper()
	for _, sample := range samples {
		before := w.live(t, sample)
		if diff := threeWay(t, sample, before); diff != "{}" {
			t.Errorf("%s: three-way diff %s", name(sample), diff)
		}
		if diff := w.dryRun(t, sample, before, manager); diff != "" {
			t.Errorf("%s: server-side diff (-live +applied):\n%s", name(sample), diff)
		}
		after := w.apply(t, sample, manager)
		if before.GetGeneration() != after.GetGeneration() {
			t.Errorf("%s: generation %d, before %d", name(sample), after.GetGeneration(), before.GetGeneration())
		}
		if diff := cmp.Diff(managedFields(t, before), managedFields(t, after)); diff != "" {
			t.Errorf("%s: managed fields (-before +after):\n%s", name(sample), diff)
		}
	}
}

// apply applies an object as a GitOps tool does, but without force unless an option says so: Quoin must own no field of
// a manifest.
func (w *world) apply(t *testing.T, u *unstructured.Unstructured, manager string, options ...client.PatchOption) *unstructured.Unstructured {
	t.Helper()
	applied := u.DeepCopy()
	//nolint:staticcheck // The typed Apply has no option for a dry run with unstructured objects that are read again.
	if err := w.Patch(t.Context(), applied, client.Apply, append(options, client.FieldOwner(manager))...); err != nil {
		t.Fatalf("apply %s: %v", name(u), err)
	}
	return applied
}

func (w *world) live(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	live := u.DeepCopy()
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(u), live); err != nil {
		t.Fatalf("get %s: %v", name(u), err)
	}
	return live
}

// dryRun returns the difference between an object and what it would be after it is applied: the server-side diff of
// Argo CD, and the drift detection of Flux.
func (w *world) dryRun(t *testing.T, sample, live *unstructured.Unstructured, manager string, options ...client.PatchOption) string {
	t.Helper()
	applied := w.apply(t, sample, manager, append(options, client.DryRunAll)...)
	return cmp.Diff(withoutServerFields(live), withoutServerFields(applied))
}

// withoutServerFields returns the object without its status and the fields that the API server changes.
func withoutServerFields(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	delete(u.Object, "status")
	return u.Object
}

// threeWay returns the merge patch from the live object to the manifest: the default diff of Argo CD, with the manifest
// as the last applied configuration.
func threeWay(t *testing.T, sample, live *unstructured.Unstructured) string {
	t.Helper()
	manifest, current := marshal(t, withData(sample).Object), marshal(t, live.Object)
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(manifest, manifest, current)
	if err != nil {
		t.Fatal(err)
	}
	return string(patch)
}

// withData returns a Secret with data in place of stringData, which the API server does not store.
func withData(u *unstructured.Unstructured) *unstructured.Unstructured {
	texts, found, _ := unstructured.NestedStringMap(u.Object, "stringData")
	if !found {
		return u
	}
	u = u.DeepCopy()
	delete(u.Object, "stringData")
	data := map[string]any{}
	for key, value := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	u.Object["data"] = data
	return u
}

// managedFields returns the managed fields by manager, with the time of the last change, without those of the status.
func managedFields(t *testing.T, u *unstructured.Unstructured) map[string]string {
	t.Helper()
	entries := map[string]string{}
	for _, entry := range u.GetManagedFields() {
		if entry.Subresource == "" {
			entries[fmt.Sprintf("%s %s", entry.Manager, entry.Operation)] = string(marshal(t, entry))
		}
	}
	return entries
}

func isReady(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// name returns the kind and the name of an object.
func name(u *unstructured.Unstructured) string { return u.GetKind() + " " + u.GetName() }

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
