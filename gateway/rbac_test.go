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
	"github.com/quoin-dev/quoin/internal/serving/certificates"
)

// gatewayUser is the user of the gateway's ServiceAccount in config/rbac.
const gatewayUser = "system:serviceaccount:quoin-system:quoin-gateway"

// restrictedConfig returns a client configuration with exactly the permissions of the kustomize
// tree, and the permission to read the Secrets of the test's namespace. All tests of this package
// run with it.
func (f *fixture) restrictedConfig() *rest.Config {
	f.Helper()
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: gatewayUser}}
	for _, document := range documents(f, "rbac/gateway_role.yaml") {
		switch kind(f, document) {
		case "ClusterRole":
			role := parse[rbacv1.ClusterRole](f, document)
			f.createOnce(role)
			f.createOnce(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: user,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}})
		case "Role":
			role := parse[rbacv1.Role](f, document)
			role.Namespace = f.namespace // the tests store the certificate here
			f.create(role)
			f.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: role.Name}, Subjects: user,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}})
		}
	}
	f.createOnce(parse[rbacv1.ClusterRole](f, documents(f, "rbac/account_role.yaml")[0]))
	f.create(certificates.EmptySecret(f.namespace, certificates.GatewaySecretName)) // as the controller does
	f.bindAccountRole()
	f.createAdmissionPolicy()
	// The authorizer watches roles, so they take effect with a delay.
	f.eventually("the gateway's permissions", func() bool {
		return f.can("list", "", "accounts.platform.quoin.dev", "") && f.can("get", f.namespace, "secrets", certificates.GatewaySecretName)
	})
	return apitest.As(f, gatewayUser)
}

// createAdmissionPolicy creates the admission policy for the gateway's writes, once for all tests.
func (f *fixture) createAdmissionPolicy() {
	f.Helper()
	policy := documents(f, "rbac/gateway_admission_policy.yaml")
	for _, object := range []client.Object{
		parse[admissionv1.ValidatingAdmissionPolicy](f, policy[0]), parse[admissionv1.ValidatingAdmissionPolicyBinding](f, policy[1]),
	} {
		f.createOnce(object)
	}
}

// createOnce creates an object that all tests share.
func (f *fixture) createOnce(object client.Object) {
	f.Helper()
	if err := f.kube.Create(f.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		f.Fatal(err)
	}
}

// bindAccountRole creates the RoleBinding that an administrator creates in an account's namespace.
func (f *fixture) bindAccountRole() {
	f.Helper()
	binding := parse[rbacv1.RoleBinding](f, documents(f, "samples/50-rolebinding.yaml")[0])
	binding.Namespace = f.namespace
	f.create(binding)
	f.eventually("permission to read Secrets", func() bool { return f.can("get", f.namespace, "secrets", "any") })
}

// can reports whether the gateway is authorized, by a SubjectAccessReview.
func (f *fixture) can(verb, namespace, resource, name string) bool {
	f.Helper()
	resource, group, _ := strings.Cut(resource, ".")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               gatewayUser,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Name: name},
	}}
	if err := f.kube.Create(f.Context(), review); err != nil {
		f.Fatal(err)
	}
	return review.Status.Allowed
}

// documents returns the YAML documents of a file of the kustomize tree.
func documents(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "config", path))
	if err != nil {
		t.Fatalf("%v (run make generate)", err)
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

// TestPermissionsOnSecrets: the gateway may get Secrets by name in bound namespaces, and update its
// certificate.
func TestPermissionsOnSecrets(t *testing.T) {
	f := newFixture(t, nil)
	for _, tc := range []struct {
		verb, namespace, name string
		allowed               bool
	}{
		{"get", f.namespace, "sales-production-credentials", true},
		{"list", f.namespace, "", false},
		{"watch", f.namespace, "", false},
		{"update", f.namespace, "sales-production-credentials", false},
		{"patch", f.namespace, "quoin-gateway-tls", false},
		{"delete", f.namespace, "quoin-gateway-tls", false},
		{"update", f.namespace, "quoin-gateway-tls", true},
		{"get", "default", "sales-production-credentials", false},
		{"get", "default", "quoin-gateway-tls", false},
		{"create", "default", "", false},
		{"create", f.namespace, "", false},
		{"list", "", "", false},
	} {
		if got := f.can(tc.verb, tc.namespace, "secrets", tc.name); got != tc.allowed {
			t.Errorf("%s Secret %s/%s: %t", tc.verb, tc.namespace, tc.name, got)
		}
	}
}

// TestPermissionsOnEnvironments: the gateway may patch two annotations of environments, and
// nothing else.
func TestPermissionsOnEnvironments(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	gateway, err := client.New(apitest.As(t, gatewayUser), client.Options{Scheme: apitest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	environment := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "sales-production"}}
	patch := func(text string) error {
		return gateway.Patch(t.Context(), environment.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	if err := f.kube.Patch(t.Context(), environment.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"kept":"x"}}}`))); err != nil {
		t.Fatal(err)
	}
	// The Kubernetes API server watches policies, so they take effect with a delay.
	f.eventually("the policy", func() bool { return patch(`{"metadata":{"labels":{"a":"b"}}}`) != nil })
	for name, tc := range map[string]struct{ patch, denied string }{
		"both annotations":   {`{"metadata":{"annotations":{"platform.quoin.dev/last-used-at":"x","platform.quoin.dev/wake-requested-at":"x"}}}`, ""},
		"one annotation":     {`{"metadata":{"annotations":{"platform.quoin.dev/last-used-at":"y"}}}`, ""},
		"image":              {`{"spec":{"image":"evil:v1"}}`, "the spec"},
		"image beside one":   {`{"metadata":{"annotations":{"platform.quoin.dev/last-used-at":"z"}},"spec":{"image":"evil:v1"}}`, "the spec"},
		"new annotation":     {`{"metadata":{"annotations":{"new":"x"}}}`, "but for last-used-at"},
		"another annotation": {`{"metadata":{"annotations":{"kept":"y"}}}`, "but for last-used-at"},
		"removed annotation": {`{"metadata":{"annotations":{"kept":null}}}`, "but for last-used-at"},
		"all annotations":    {`{"metadata":{"annotations":null}}`, "but for last-used-at"},
		"label":              {`{"metadata":{"labels":{"a":"b"}}}`, "the metadata"},
		"finalizer":          {`{"metadata":{"finalizers":["a.example.com/b"]}}`, "the metadata"},
		"owner":              {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]}}`, "the metadata"},
		"status":             {`{"status":{"active":true}}`, ""}, // ignored: a subresource
	} {
		t.Run(name, func(t *testing.T) {
			err := patch(tc.patch)
			if tc.denied == "" && err != nil || tc.denied != "" && (err == nil || !strings.Contains(err.Error(), "must not change") || !strings.Contains(err.Error(), tc.denied)) {
				t.Errorf("%v, want %q", err, tc.denied)
			}
		})
	}
}

// TestWithoutPermissionToReadSecrets: callers receive a 503, the log names the missing binding
// once, and tokens are checked as soon as the binding exists.
func TestWithoutPermissionToReadSecrets(t *testing.T) {
	f := newFixture(t, nil)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "quoin-account"}}
	if err := f.kube.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	f.eventually("permission to read Secrets is revoked", func() bool { return !f.can("get", f.namespace, "secrets", "any") })
	f.createDeployment("sales", nil)
	f.startPod("sales-production", nil)
	f.waitForRoute("sales", "/cubejs-api")

	url := f.url("sales", "/cubejs-api/v1/load")
	for name, token := range map[string]string{"data": f.dataToken("sales-production"), "metadata": f.metadataToken("sales-production"), "wrong": f.dataToken("another")} {
		got := f.do(f.http, "GET", url, token, nil)
		var problem struct{ Error string }
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
			t.Errorf("%s token: %v: %s", name, err, got.body)
		}
		const want = "the gateway may not read the environment's credentials; an administrator must grant access: try again later"
		if got.status != 503 || problem.Error != want || got.header.Get("Retry-After") == "" {
			t.Errorf("%s token: %d %v %s", name, got.status, got.header, got.body)
		}
	}
	if got := f.do(f.http, "GET", url, "", nil); got.status != 401 {
		t.Errorf("no token: %d %s", got.status, got.body)
	}
	var lines []string
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "quoin-account") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "namespace="+f.namespace) || !strings.Contains(lines[0], "RoleBinding") {
		t.Errorf("the log names the binding %d times, want once: %q", len(lines), lines)
	}

	f.bindAccountRole()
	f.eventually("tokens are checked", func() bool { return f.do(f.http, "GET", url, f.dataToken("sales-production"), nil).status == 200 })
}
