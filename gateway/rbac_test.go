package gateway_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
)

// gatewayUser is whom the API server takes the gateway for: config/rbac makes its account.
const gatewayUser = "system:serviceaccount:quoin-system:quoin-gateway"

// restricted is the API server as the gateway sees it that has the rights of the kustomize tree
// and no others: what every test of this package runs with. An administrator has let it read
// the Secrets of the test's namespace.
func (w *world) restricted(config *rest.Config) *rest.Config {
	w.Helper()
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: gatewayUser}}
	for _, document := range documents(w, "rbac/gateway_role.yaml") {
		switch kind(w, document) {
		case "ClusterRole":
			role := parse[rbacv1.ClusterRole](w, document)
			role.Name = "gateway-" + w.namespace
			w.create(role)
			w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: user,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}})
		case "Role":
			role := parse[rbacv1.Role](w, document)
			role.Namespace = w.namespace // the tests keep the certificate here
			w.create(role)
			w.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: role.Name}, Subjects: user,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}})
		}
	}
	shared := parse[rbacv1.ClusterRole](w, documents(w, "rbac/account_role.yaml")[0])
	if err := w.kube.Create(w.Context(), shared); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
	w.bindAccount()
	w.confine()
	// The authorizer learns of roles by a watch.
	w.eventually("the gateway's rights", func() bool {
		return w.may("list", "", "accounts.platform.quoin.dev", "") && w.may("create", w.namespace, "secrets", "")
	})
	confined := rest.CopyConfig(config)
	confined.Impersonate.UserName = gatewayUser
	return confined
}

// confine applies the policy on what the gateway may write, once for all tests.
func (w *world) confine() {
	w.Helper()
	both := documents(w, "rbac/gateway_admission_policy.yaml")
	for _, object := range []client.Object{
		parse[admissionv1.ValidatingAdmissionPolicy](w, both[0]), parse[admissionv1.ValidatingAdmissionPolicyBinding](w, both[1]),
	} {
		if err := w.kube.Create(w.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			w.Fatal(err)
		}
	}
}

// bindAccount does what an administrator does in the namespace of an account.
func (w *world) bindAccount() {
	w.Helper()
	binding := parse[rbacv1.RoleBinding](w, documents(w, "samples/50-rolebinding.yaml")[0])
	binding.Namespace = w.namespace
	w.create(binding)
	w.eventually("the right to read Secrets", func() bool { return w.may("get", w.namespace, "secrets", "any") })
}

// may asks the API server what the gateway may do.
func (w *world) may(verb, namespace, resource, name string) bool {
	w.Helper()
	resource, group, _ := strings.Cut(resource, ".")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               gatewayUser,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Name: name},
	}}
	if err := w.kube.Create(w.Context(), review); err != nil {
		w.Fatal(err)
	}
	return review.Status.Allowed
}

// documents are those of a file of the kustomize tree.
func documents(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "config", path))
	if err != nil {
		t.Fatalf("has it been generated (make generate)? %v", err)
	}
	return strings.Split(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
}

func kind(t testing.TB, document string) string {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
		t.Fatal(err)
	}
	return meta.Kind
}

func parse[T any](t testing.TB, document string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestRightsOnSecrets: by name, where an administrator has said so, and the certificate.
func TestRightsOnSecrets(t *testing.T) {
	w := newWorld(t, nil)
	for _, tc := range []struct {
		verb, namespace, name string
		allowed               bool
	}{
		{"get", w.namespace, "sales-production-credentials", true},
		{"list", w.namespace, "", false},
		{"watch", w.namespace, "", false},
		{"update", w.namespace, "sales-production-credentials", false},
		{"patch", w.namespace, "quoin-gateway-tls", false},
		{"delete", w.namespace, "quoin-gateway-tls", false},
		{"update", w.namespace, "quoin-gateway-tls", true},
		{"get", "default", "sales-production-credentials", false},
		{"get", "default", "quoin-gateway-tls", false},
		{"create", "default", "", false},
		{"list", "", "", false},
	} {
		if got := w.may(tc.verb, tc.namespace, "secrets", tc.name); got != tc.allowed {
			t.Errorf("%s Secret %s/%s: %t", tc.verb, tc.namespace, tc.name, got)
		}
	}
}

// TestRightsOnEnvironments: the right to patch them is for two annotations and nothing else.
func TestRightsOnEnvironments(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	confined := rest.CopyConfig(apitest.Server(t))
	confined.Impersonate.UserName = gatewayUser
	gateway, err := client.New(confined, client.Options{Scheme: apitest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	environment := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "sales-production"}}
	patch := func(text string) error {
		return gateway.Patch(t.Context(), environment.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	if err := w.kube.Patch(t.Context(), environment.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"kept":"x"}}}`))); err != nil {
		t.Fatal(err)
	}
	// The API server learns of policies by a watch too.
	w.eventually("the policy", func() bool { return patch(`{"metadata":{"labels":{"a":"b"}}}`) != nil })
	for name, tc := range map[string]struct{ patch, refused string }{
		"both annotations":    {`{"metadata":{"annotations":{"platform.quoin.dev/last-used-at":"x","platform.quoin.dev/wake-requested-at":"x"}}}`, ""},
		"one, again":          {`{"metadata":{"annotations":{"platform.quoin.dev/last-used-at":"y"}}}`, ""},
		"image":               {`{"spec":{"image":"evil:v1"}}`, "the spec"},
		"image beside one":    {`{"metadata":{"annotations":{"platform.quoin.dev/last-used-at":"z"}},"spec":{"image":"evil:v1"}}`, "the spec"},
		"new annotation":      {`{"metadata":{"annotations":{"new":"x"}}}`, "but for last-used-at"},
		"another annotation":  {`{"metadata":{"annotations":{"kept":"y"}}}`, "but for last-used-at"},
		"annotation is gone":  {`{"metadata":{"annotations":{"kept":null}}}`, "but for last-used-at"},
		"all annotations":     {`{"metadata":{"annotations":null}}`, "but for last-used-at"},
		"label":               {`{"metadata":{"labels":{"a":"b"}}}`, "the metadata"},
		"finalizer":           {`{"metadata":{"finalizers":["a.example.com/b"]}}`, "the metadata"},
		"owner":               {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]}}`, "the metadata"},
		"status, by the spec": {`{"status":{"active":true}}`, ""}, // a subresource: nothing is written
	} {
		t.Run(name, func(t *testing.T) {
			err := patch(tc.patch)
			if tc.refused == "" && err != nil || tc.refused != "" && (err == nil || !strings.Contains(err.Error(), "must not change") || !strings.Contains(err.Error(), tc.refused)) {
				t.Errorf("%v, want %q", err, tc.refused)
			}
		})
	}
}

// TestWithoutTheRightToReadSecrets: callers are told that it is not their fault and nothing else,
// the log says what an administrator has to do, and it works as soon as that is done.
func TestWithoutTheRightToReadSecrets(t *testing.T) {
	w := newWorld(t, nil)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "quoin-account"}}
	if err := w.kube.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	w.eventually("the right to read Secrets is gone", func() bool { return !w.may("get", w.namespace, "secrets", "any") })
	w.deployment("sales", nil)
	w.serve("sales-production", nil)
	w.routed("sales", "/cubejs-api")

	url := w.url("sales", "/cubejs-api/v1/load")
	for name, token := range map[string]string{"data": w.data("sales-production"), "metadata": w.meta("sales-production"), "wrong": w.data("another")} {
		got := w.ask(w.http, "GET", url, token, nil)
		var problem struct{ Error string }
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
			t.Errorf("%s token: %v: %s", name, err, got.body)
		}
		const want = "the gateway may not read the environment's credentials, which an administrator has to allow: try again later"
		if got.status != 503 || problem.Error != want || got.header.Get("Retry-After") == "" {
			t.Errorf("%s token: %d %v %s", name, got.status, got.header, got.body)
		}
	}
	if got := w.ask(w.http, "GET", url, "", nil); got.status != 401 {
		t.Errorf("no token: %d %s", got.status, got.body)
	}
	var lines []string
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "quoin-account") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "namespace="+w.namespace) || !strings.Contains(lines[0], "RoleBinding") {
		t.Errorf("the log names the binding %d times, want once: %q", len(lines), lines)
	}

	w.bindAccount()
	w.eventually("tokens are checked", func() bool { return w.ask(w.http, "GET", url, w.data("sales-production"), nil).status == 200 })
}
