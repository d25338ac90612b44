package contract_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
)

// frontUser is whom the API server takes the front end for: config/rbac makes its account.
const frontUser = "system:serviceaccount:quoin-system:quoin-apiserver"

// restricted is the API server as the front end sees it that has the rights of the kustomize tree
// and no others: what every test of this package runs with.
func restricted(ctx context.Context, config *clientrest.Config) (*clientrest.Config, error) {
	for _, file := range []string{"rbac/apiserver_role.yaml", "rbac/apiserver_role_binding.yaml", "rbac/account_apiserver_role.yaml"} {
		if err := apply(ctx, file, ""); err != nil {
			return nil, err
		}
	}
	// The authorizer learns of roles by a watch.
	for _, right := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Group: "platform.quoin.dev", Resource: "accounts"}, {Namespace: "quoin-system", Verb: "create", Resource: "secrets"},
	} {
		if err := apiclient.Eventually(func() error { return wantRight(ctx, right, true) }); err != nil {
			return nil, err
		}
	}
	confined := clientrest.CopyConfig(config)
	confined.Impersonate.UserName, confined.Impersonate.Groups = frontUser, []string{"system:serviceaccounts", "system:authenticated"}
	return confined, nil
}

// apply creates the objects in a file of the kustomize tree, in another namespace if one is given.
func apply(ctx context.Context, file, namespace string) error {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(strings.TrimPrefix(string(text), "---\n"), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return err
		}
		if namespace != "" {
			object.SetNamespace(namespace)
		}
		if err := k8s.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// letRead does what an administrator does in the namespace of an account.
func (a *account) letRead(ctx context.Context) error {
	if err := apply(ctx, "samples/50-rolebinding.yaml", a.name); err != nil {
		return err
	}
	return apiclient.Eventually(func() error { return wantRight(ctx, secretsOf(a), true) })
}

// forbid takes the bindings of the account away until the test is over.
func (a *account) forbid(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, name := range []string{"quoin-account", "quoin-account-apiserver"} {
		binding := &unstructured.Unstructured{}
		binding.SetAPIVersion("rbac.authorization.k8s.io/v1")
		binding.SetKind("RoleBinding")
		binding.SetNamespace(a.name)
		binding.SetName(name)
		if err := k8s.Delete(ctx, binding); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := a.letRead(ctx); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Error(err)
		}
	})
	apiclient.Soon(t, func() error { return wantRight(ctx, secretsOf(a), false) })
}

func secretsOf(a *account) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Namespace: a.name, Verb: "get", Resource: "secrets", Name: "analytics-production-credentials"}
}

// wantRight fails unless the front end may do something, or may not.
func wantRight(ctx context.Context, right authorizationv1.ResourceAttributes, allowed bool) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: frontUser, ResourceAttributes: &right}}
	clientset, err := kubernetes.NewForConfig(kubeAdmin)
	if err != nil {
		return err
	}
	review, err = clientset.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if review.Status.Allowed != allowed {
		return fmt.Errorf("%s %s in %q: allowed is %t", right.Verb, right.Resource, right.Namespace, review.Status.Allowed)
	}
	return nil
}

// TestWithoutTheRightToUseSecrets: where no administrator has bound the front end, what needs a
// Secret says so, nothing is changed, and all else goes on; it works as soon as that is done.
func TestWithoutTheRightToUseSecrets(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	globex.forbid(t)
	admin, path := globex.as(globex.admin), "/api/v1/deployments/"+globex.id
	environment, _ := admin.call(t, "GET", path+"/environments", nil).is(200).list("items")[0]["id"].(string)
	set := func(name string) *answer {
		return admin.call(t, "PUT", path+"/env-vars", map[string]any{"env_variables": []map[string]string{{"name": name, "value": "x"}}})
	}
	const missing = "quoin may not use the account's Secrets, which an administrator has to allow: try again later"
	for _, route := range []string{"/token", "/environments/" + environment + "/tokens", "/environments/" + environment + "/tokens-for-meta-sync"} {
		body := map[string]any{"security_context": map[string]any{}}
		if route == "/token" {
			body = map[string]any{}
		}
		got := admin.call(t, "POST", path+route, body)
		got.refused(503)
		got.want("error", missing)
	}
	before := snapshot(t, globex)
	got := set("CUBEJS_DB_PASS")
	got.refused(503)
	got.want("error", missing)
	if after := snapshot(t, globex); after != before {
		t.Errorf("objects have changed:\n%s\n%s", before, after)
	}
	set("CUBEJS_DB_HOST").is(200)
	before = snapshot(t, globex)
	create := func() *answer { return admin.call(t, "POST", "/build/api/v1/deployments", creation("Without a right")) }
	got = create()
	got.refused(503)
	got.want("error", "quoin may not use the account's ConfigMaps, which an administrator has to allow: try again later")
	if after := snapshot(t, globex); after != before {
		t.Errorf("objects have changed:\n%s\n%s", before, after)
	}

	if err := globex.letRead(ctx); err != nil {
		t.Fatal(err)
	}
	admin.call(t, "POST", path+"/token", map[string]any{}).is(200)
	set("CUBEJS_DB_PASS").is(200)
	create().is(200)
	held := &corev1.Secret{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: globex.name, Name: "analytics-variables"}, held); err != nil || len(held.Data) != 1 {
		t.Errorf("the values are kept: %v, %d of them, want 1", err, len(held.Data))
	}
}
