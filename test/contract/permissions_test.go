package contract_test

import (
	"context"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// grant creates the RoleBindings that an administrator creates in the namespace of an account.
func (a *account) grant(ctx context.Context) error {
	if err := cluster.Grant(ctx, a.name); err != nil {
		return err
	}
	return apiclient.Eventually(func() error {
		return wantPermission(ctx, clustertest.User(clustertest.APIServer), secretAccess(a), true)
	})
}

// revoke deletes the RoleBindings of the account until the end of the test.
func (a *account) revoke(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, name := range []string{"quoin-account", "quoin-account-apiserver", "quoin-account-controller", "quoin-account-tokens"} {
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
		if err := a.grant(ctx); err != nil {
			t.Error(err)
		}
	})
	apiclient.Soon(t, func() error {
		return wantPermission(ctx, clustertest.User(clustertest.APIServer), secretAccess(a), false)
	})
}

func secretAccess(a *account) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Namespace: a.name, Verb: "get", Resource: "secrets", Name: "analytics-production-credentials"}
}

// wantPermission returns an error unless allowed is what kube-apiserver decides for the permission of a user.
func wantPermission(ctx context.Context, user string, permission authorizationv1.ResourceAttributes, allowed bool) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &permission}}
	clientset, err := kubernetes.NewForConfig(kubeAdmin)
	if err != nil {
		return err
	}
	review, err = clientset.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if review.Status.Allowed != allowed {
		return fmt.Errorf("%s %s in %q: allowed is %t", permission.Verb, permission.Resource, permission.Namespace, review.Status.Allowed)
	}
	return nil
}

// Without the RoleBindings in the account's namespace, requests that need a Secret fail and change nothing, all others
// succeed. After they are created, all requests succeed.
func TestMissingRoleBindingsAreReported(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	globex.revoke(t)
	admin, path := globex.as(globex.admin), "/api/v1/deployments/"+globex.id
	environment, _ := admin.call(t, "GET", path+"/environments", nil).is(200).list("items")[0]["id"].(string)
	set := func(name string) *response {
		return admin.call(t, "PUT", path+"/env-vars", map[string]any{"env_variables": []map[string]string{{"name": name, "value": "x"}}})
	}
	const missing = "quoin may not use the account's Secrets; an administrator must grant access: try again later"
	for _, route := range []string{"/token", "/environments/" + environment + "/tokens", "/environments/" + environment + "/tokens-for-meta-sync"} {
		body := map[string]any{"security_context": map[string]any{}}
		if route == "/token" {
			body = map[string]any{}
		}
		got := admin.call(t, "POST", path+route, body)
		got.rejected(503)
		got.want("error", missing)
	}
	before := snapshot(t, globex)
	got := set("CUBEJS_DB_PASS")
	got.rejected(503)
	got.want("error", missing)
	if after := snapshot(t, globex); after != before {
		t.Errorf("the deployments have changed:\n%s\n%s", before, after)
	}
	set("CUBEJS_DB_HOST").is(200)
	if err := globex.grant(ctx); err != nil {
		t.Fatal(err)
	}
	admin.call(t, "POST", path+"/token", map[string]any{}).is(200)
	set("CUBEJS_DB_PASS").is(200)
	variables := &corev1.Secret{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: globex.name, Name: "analytics-variables"}, variables); err != nil || len(variables.Data) != 1 {
		t.Errorf("%d values in the Secret, want 1: %v", len(variables.Data), err)
	}
}
