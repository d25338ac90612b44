package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kstatus treats an object as reconciled if observedGeneration equals generation, so a new object must not have that.
func TestNewObjectsAreNotReady(t *testing.T) {
	s := server(t)
	namespace := s.namespace(t)
	for _, u := range wholeObjects(t, namespace) {
		t.Run(u.GetKind(), func(t *testing.T) {
			if err := s.Create(testContext(t), u, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			var want any
			if !withoutStatus(u.GetKind()) {
				want = freshStatus(u.GetKind())
			}
			if diff := cmp.Diff(want, u.Object["status"]); diff != "" {
				t.Errorf("status of a new object (-want +got):\n%s", diff)
			}
		})
	}
}

// freshStatus returns the status of an object that no controller has reconciled. Booleans in print columns are false.
func freshStatus(kind string) map[string]any {
	status := map[string]any{"observedGeneration": int64(-1)}
	switch kind {
	case "Deployment":
		status["hold"] = false
	case "Environment":
		status["active"] = false
	}
	return status
}

// TestStatusIsASubresource checks that applying an object does not write its status, and that writing the status does not
// write the spec.
func TestStatusIsASubresource(t *testing.T) {
	s := server(t)
	u := fresh(t, "Deployment", s.namespace(t), "analytics", deploymentTable.spec)
	u.Object["status"] = map[string]any{"observedGeneration": int64(7), "currentVersion": "9.9.9"}
	if err := s.Create(testContext(t), u); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(freshStatus("Deployment"), u.Object["status"]); diff != "" {
		t.Errorf("status after create (-want +got):\n%s", diff)
	}
	if err := unstructured.SetNestedField(u.Object, "other", "spec", "releaseChannel"); err != nil {
		t.Fatal(err)
	}
	u.Object["status"] = map[string]any{"observedGeneration": int64(1), "currentVersion": "1.2.3"}
	if err := s.Status().Update(testContext(t), u); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(u.Object, "spec", "releaseChannel"); got != "latest" {
		t.Errorf("a write of status changed spec.releaseChannel to %q", got)
	}
	if u.GetGeneration() != 1 {
		t.Errorf("generation is %d after a write of status, want 1", u.GetGeneration())
	}
}

// Unknown fields are rejected with strict validation, as kubectl requests it, and dropped without.
func TestUnknownFieldsAreRejectedOrDropped(t *testing.T) {
	s := server(t)
	namespace := s.namespace(t)
	for _, u := range wholeObjects(t, namespace) {
		t.Run(u.GetKind(), func(t *testing.T) {
			want := u.DeepCopy().Object["spec"]
			if err := unstructured.SetNestedField(u.Object, "x", "spec", "unknownField"); err != nil {
				t.Fatal(err)
			}
			err := s.Create(testContext(t), u.DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.unknownField"`) {
				t.Errorf("strict: got %v, want spec.unknownField to be rejected", err)
			}
			if err := s.Create(testContext(t), u, client.DryRunAll, client.FieldValidation(metav1.FieldValidationIgnore)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, u.Object["spec"], numbers); diff != "" {
				t.Errorf("spec as stored (-want +got):\n%s", diff)
			}
		})
	}
}

// numbers compares numbers from YAML (float64) with numbers from the server (int64).
var numbers = cmp.FilterValues(func(a, b any) bool { return isNumber(a) && isNumber(b) },
	cmp.Comparer(func(a, b any) bool { return asFloat(a) == asFloat(b) }))

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

func asFloat(v any) float64 {
	if i, ok := v.(int64); ok {
		return float64(i)
	}
	f, _ := v.(float64)
	return f
}

// kubectl scale and the HorizontalPodAutoscaler use the scale subresource.
func TestDeploymentHasAScaleSubresource(t *testing.T) {
	s := server(t)
	u := fresh(t, "Deployment", s.namespace(t), "analytics", deploymentTable.spec)
	if err := s.Create(testContext(t), u); err != nil {
		t.Fatal(err)
	}
	u.Object["status"] = map[string]any{"replicas": int64(1), "selector": "app.kubernetes.io/instance=analytics"}
	if err := s.Status().Update(testContext(t), u); err != nil {
		t.Fatal(err)
	}
	scale := object(t, "apiVersion: autoscaling/v1\nkind: Scale\nspec: {replicas: 3}")
	scale.SetName(u.GetName())
	scale.SetNamespace(u.GetNamespace())
	// An autoscaler needs a number to begin with; docs/operations/gitops.md says so.
	if err := s.SubResource("scale").Get(testContext(t), u, scale.DeepCopy()); err == nil || !strings.Contains(err.Error(), ".spec.replicas") {
		t.Errorf("reading the scale without spec.replicas: got %v, want an error", err)
	}
	if err := s.SubResource("scale").Update(testContext(t), u, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"replicas": int64(1), "selector": "app.kubernetes.io/instance=analytics"}, scale.Object["status"]); diff != "" {
		t.Errorf("status of the scale (-want +got):\n%s", diff)
	}
	if err := s.Get(testContext(t), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); got != 3 {
		t.Errorf("spec.replicas is %d after scaling to 3", got)
	}
	tooMany := scale.DeepCopy()
	tooMany.SetResourceVersion(u.GetResourceVersion())
	tooMany.Object["spec"] = map[string]any{"replicas": int64(101)}
	err := s.SubResource("scale").Update(testContext(t), u, client.WithSubResourceBody(tooMany))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "should be less than or equal to 100") {
		t.Errorf("scaling to 101: got %v, want an error", err)
	}
}

func TestListsAreFilteredBySelectableFields(t *testing.T) {
	s := server(t)
	namespace := s.namespace(t)
	for _, file := range yamlFiles(t, crdFolder) {
		crd := readCRD(t, file)
		kind := crd.Spec.Names.Kind
		t.Run(kind, func(t *testing.T) {
			selectable := tableOf(t, kind).selectable
			var declared []string
			for _, f := range crd.Spec.Versions[0].SelectableFields {
				declared = append(declared, strings.TrimPrefix(f.JSONPath, "."))
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(selectable)), slices.Sorted(slices.Values(declared))); diff != "" {
				t.Errorf("selectable fields (-tested +declared):\n%s", diff)
			}
			whole := s.createWhole(t, kind, namespace)
			for field, value := range selectable {
				requireListed(t, s, whole, field+"="+value, true)
				requireListed(t, s, whole, field+"=another", false)
			}
		})
	}
}

func requireListed(t *testing.T, s *apiServer, u *unstructured.Unstructured, selector string, want bool) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(u.GroupVersionKind())
	options := &client.ListOptions{Namespace: u.GetNamespace(), Raw: &metav1.ListOptions{FieldSelector: selector}}
	if err := s.List(testContext(t), list, options); err != nil {
		t.Fatalf("list by %s: %v", selector, err)
	}
	listed := slices.ContainsFunc(list.Items, func(i unstructured.Unstructured) bool { return i.GetUID() == u.GetUID() })
	if listed != want {
		t.Errorf("list by %s: the object is listed: %t, want %t", selector, listed, want)
	}
}

// createWhole creates an object with the first complete spec of its kind, and deletes it after the test.
func (s *apiServer) createWhole(t *testing.T, kind, namespace string) *unstructured.Unstructured {
	t.Helper()
	table := tableOf(t, kind)
	u := fresh(t, kind, namespace, table.nameOfWhole(), table.whole[0])
	if err := s.Create(testContext(t), u); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.remove(t, u) })
	return u
}

func TestKubectlGetPrintsTheColumns(t *testing.T) {
	s := server(t)
	namespace := s.namespace(t)
	for _, file := range yamlFiles(t, crdFolder) {
		crd := readCRD(t, file)
		kind := crd.Spec.Names.Kind
		t.Run(kind, func(t *testing.T) {
			whole := s.createWhole(t, kind, namespace)
			table := s.table(t, whole, crd.Spec.Names.Plural)
			var got []string
			for _, c := range table.ColumnDefinitions {
				if c.Priority > 0 {
					got = append(got, "["+c.Name+"]")
					continue
				}
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tableOf(t, kind).headings, strings.Join(got, " ")); diff != "" {
				t.Errorf("headings (-want +got):\n%s", diff)
			}
			if len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
				t.Errorf("rows are %v, want one with %d cells", table.Rows, len(table.ColumnDefinitions))
			}
		})
	}
}

// table requests the object as a Table, like kubectl get.
func (s *apiServer) table(t *testing.T, u *unstructured.Unstructured, plural string) *metav1.Table {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	path := []string{"apis", u.GroupVersionKind().Group, u.GroupVersionKind().Version}
	if u.GetNamespace() != "" {
		path = append(path, "namespaces", u.GetNamespace())
	}
	url, err := url.JoinPath(s.config.Host, append(path, plural, u.GetName())...)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	table := &metav1.Table{}
	if err := json.NewDecoder(response.Body).Decode(table); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", url, response.Status)
	}
	return table
}

// Field managers, such as Argo CD and the REST server, own different variables, and get a conflict for those of others.
func TestServerSideApplyMergesEnvByName(t *testing.T) {
	s := server(t)
	namespace := s.namespace(t)
	apply := func(manager, spec string) error {
		u := fresh(t, "Deployment", namespace, "analytics", spec)
		return s.Apply(testContext(t), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager))
	}
	for _, step := range []struct{ manager, spec string }{
		{"argocd", merge(t, deploymentTable.spec, `{env: [{name: A, value: git}, {name: B, value: git}]}`)},
		{"quoin-apiserver", `{env: [{name: C, value: rest}]}`},
		{"argocd", merge(t, deploymentTable.spec, `{env: [{name: A, value: changed}]}`)},
	} {
		if err := apply(step.manager, step.spec); err != nil {
			t.Fatalf("apply as %s: %v", step.manager, err)
		}
	}
	got := fresh(t, "Deployment", namespace, "analytics", "{}")
	if err := s.Get(testContext(t), client.ObjectKeyFromObject(got), got); err != nil {
		t.Fatal(err)
	}
	env, _, _ := unstructured.NestedSlice(got.Object, "spec", "env")
	want := []any{map[string]any{"name": "A", "value": "changed"}, map[string]any{"name": "C", "value": "rest"}}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}

	err := apply("quoin-apiserver", `{env: [{name: A, value: rest}]}`)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "argocd"`) {
		t.Errorf("got %v, want a conflict that names argocd", err)
	}
}
