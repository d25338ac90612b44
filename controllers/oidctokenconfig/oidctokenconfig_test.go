package oidctokenconfig_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const hour = 60 * time.Minute

func variable(name string) func(*v1alpha1.OidcTokenConfig) {
	return func(c *v1alpha1.OidcTokenConfig) { c.Spec.TargetEnvVar = name }
}

func only(deployments ...string) func(*v1alpha1.OidcTokenConfig) {
	return func(c *v1alpha1.OidcTokenConfig) {
		for _, d := range deployments {
			c.Spec.Deployments = append(c.Spec.Deployments, v1alpha1.LocalReference{Name: d})
		}
	}
}

// TestScope: which deployments have tokens, also after changes of the configuration and of deployments.
func TestScope(t *testing.T) {
	w := newWorld(t)
	hr := w.deployment("hr", "2")
	w.deployment("new", "")
	w.config("all")
	w.config("some", only("hr", "missing"))
	w.run()
	w.verified("sales", "all.api", "all.refresh-worker")
	w.verified("hr", "all.api", "all.refresh-worker", "some.api", "some.refresh-worker")
	w.verified("new")
	w.ready("all", "Succeeded", "Tokens are issued")
	w.ready("some", "DeploymentNotFound", `spec.deployments: deployment "missing" does not exist`)

	w.change(&v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "new"}}, `{"metadata":{"labels":{"platform.quoin.dev/id":"3"}}}`)
	w.change(w.configNamed("some"), `{"spec":{"deployments":[{"name":"new"}]}}`)
	w.run()
	w.verified("hr", "all.api", "all.refresh-worker")
	if claims := w.verified("new", "all.api", "all.refresh-worker", "some.api", "some.refresh-worker"); claims["all.api"]["sub"] != "deployment:3" {
		t.Errorf("%v", claims)
	}
	w.ready("some", "Succeeded", "")

	w.change(w.configNamed("all"), `{"spec":{"suspend":true}}`)
	w.run()
	w.ready("all", "Suspended", "no tokens are issued")
	w.verified("sales")
	w.verified("new", "some.api", "some.refresh-worker")
	if strings.Contains(w.templates()["sales-production-api"], "oidc") {
		t.Error("the pods mount tokens of a suspended configuration")
	}

	// The garbage collector, which the test does not have, deletes the Secret with its owner.
	if err := w.api.Delete(t.Context(), hr); err != nil {
		t.Fatal(err)
	}
	secret := get(w, &corev1.Secret{}, w.namespace, "hr-oidc-tokens")
	if !metav1.IsControlledBy(secret, hr) {
		t.Errorf("owners: %v", secret.OwnerReferences)
	}
	w.deployment("hr", "4")
	w.change(w.configNamed("all"), `{"spec":{"suspend":false}}`)
	w.run()
	w.ready("all", "Suspended", "") // waits for the garbage collector
	if err := w.api.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.run()
	if claims := w.verified("hr", "all.api", "all.refresh-worker"); claims["all.api"]["sub"] != "deployment:4" {
		t.Errorf("%v", claims)
	}
	w.ready("all", "Succeeded", "")
}

// TestDeletion: the tokens of a deleted configuration are removed at once, or by the next reconciliation of another one if the
// controller was stopped.
func TestDeletion(t *testing.T) {
	for name, restarted := range map[string]bool{"while the controller runs": false, "while it is stopped": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.config("aws")
			w.config("gcp")
			w.run()
			w.verified("sales", "aws.api", "aws.refresh-worker", "gcp.api", "gcp.refresh-worker")
			if err := w.api.Delete(t.Context(), w.configNamed("gcp")); err != nil {
				t.Fatal(err)
			}
			if restarted {
				w.restart()
				w.run()
			} else if _, err := w.configs.Reconcile(t.Context(), requestFor(w, "gcp")); err != nil {
				t.Fatal(err)
			}
			w.verified("sales", "aws.api", "aws.refresh-worker")
		})
	}
}

// TestFailedRemovalIsRepeated: tokens that are no longer issued are removed although the first write fails.
func TestFailedRemovalIsRepeated(t *testing.T) {
	for name, patch := range map[string]string{
		"suspended":        `{"spec":{"suspend":true}}`,
		"other deployment": `{"spec":{"deployments":[{"name":"hr"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.deployment("hr", "2")
			w.config("aws", only("sales"))
			w.run()
			w.verified("sales", "aws.api", "aws.refresh-worker")
			w.change(w.configNamed("aws"), patch)
			w.forbidden = "patch"
			w.run()
			w.forbidden = ""
			w.run()
			w.verified("sales")
		})
	}
}

// TestConflicts: of two configurations with the same variable the older one is in effect, and the other one names it.
func TestConflicts(t *testing.T) {
	w := newWorld(t)
	w.deployment("hr", "2")
	w.config("a", variable("TOKEN_FILE"), only("sales"))
	w.config("b", variable("TOKEN_FILE"))
	w.run()
	w.ready("a", "Succeeded", "")
	w.ready("b", "NameTaken", `spec.targetEnvVar: OidcTokenConfig "a" has the same one in deployment "sales"`)
	w.verified("sales", "a.api", "a.refresh-worker")
	w.verified("hr", "b.api", "b.refresh-worker")
	w.change(w.configNamed("a"), `{"spec":{"targetEnvVar":"OTHER"}}`)
	w.run()
	w.ready("b", "Succeeded", "")
	w.verified("sales", "a.api", "a.refresh-worker", "b.api", "b.refresh-worker")
}

// TestInvalid: what the schema cannot check.
func TestInvalid(t *testing.T) {
	w := newWorld(t)
	w.config("reserved", variable("CUBEJS_API_SECRET"))
	w.config("first")
	w.run()
	w.config("copied", func(c *v1alpha1.OidcTokenConfig) {
		c.Labels = map[string]string{v1alpha1.LabelID: get(w, &v1alpha1.OidcTokenConfig{}, w.namespace, "first").Labels[v1alpha1.LabelID]}
	})
	w.run()
	w.ready("reserved", "InvalidSpec", "spec.targetEnvVar: CUBEJS_API_SECRET is set by the platform")
	w.ready("copied", "InvalidSpec", `has the ID of OidcTokenConfig "first"`)
	w.verified("sales", "first.api", "first.refresh-worker")
	c := get(w, &v1alpha1.OidcTokenConfig{}, w.namespace, "first")
	if c.Status.ID != 1 || c.Status.Issuer != "https://"+w.namespace+".example.com/oidc" || c.Status.Audience != "sts.amazonaws.com" || !c.Status.Mounted {
		t.Errorf("%+v", c.Status)
	}
}

// TestWithoutRoleBinding: the message names the RoleBinding, pods do not wait for tokens that cannot be issued, and those that
// have them keep them.
func TestWithoutRoleBinding(t *testing.T) {
	w := newWorld(t)
	w.forbidden = "get"
	w.config("aws")
	w.run()
	const message = `access to Secret "sales-oidc-tokens" is forbidden: bind ClusterRole quoin-account-tokens to quoin controller with a RoleBinding in namespace`
	w.ready("aws", "TokenSecretInaccessible", message)
	if strings.Contains(w.templates()["sales-production-api"], "oidc") {
		t.Error("pods mount tokens that do not exist")
	}
	w.forbidden = ""
	w.run()
	w.ready("aws", "Succeeded", "")
	mounted := w.templates()
	w.forbidden, w.now = "patch", w.now.Add(hour)
	w.run()
	w.ready("aws", "TokenSecretInaccessible", message)
	if diff := cmp.Diff(mounted, w.templates()); diff != "" {
		t.Errorf("the pod templates changed:\n%s", diff)
	}
	w.forbidden = ""
	w.run()
	w.ready("aws", "Succeeded", "")
	w.verified("sales", "aws.api", "aws.refresh-worker")
}

// TestDeletedSecret: a Secret that was deleted is restored when a reconciliation is requested.
func TestDeletedSecret(t *testing.T) {
	w := newWorld(t)
	w.config("aws")
	w.run()
	if err := w.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "sales-oidc-tokens"}}); err != nil {
		t.Fatal(err)
	}
	w.change(w.configNamed("aws"), `{"metadata":{"annotations":{"platform.quoin.dev/reconcile-requested-at":"now"}}}`)
	w.run()
	w.verified("sales", "aws.api", "aws.refresh-worker")
}

// TestSecretOfUser: a Secret with the name of that with the tokens is not overwritten.
func TestSecretOfUser(t *testing.T) {
	w := newWorld(t)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "sales-oidc-tokens"}, Data: map[string][]byte{"password": []byte("confidential")}})
	w.config("aws", func(c *v1alpha1.OidcTokenConfig) { c.Spec.Suspend = ptr.To(false) })
	for range 3 {
		w.run()
	}
	w.ready("aws", "ReconcileError", `secret "sales-oidc-tokens" is not one of Quoin's; delete it`)
	if got := w.tokens("sales"); len(got) != 1 || got["password"] != "confidential" {
		t.Errorf("%d keys", len(got))
	}
}

// TestChangedClaims: a change of the configuration replaces tokens at once.
func TestChangedClaims(t *testing.T) {
	w := newWorld(t)
	w.config("aws")
	w.run()
	w.change(w.configNamed("aws"), `{"spec":{"audience":"mine","customClaims":[{"name":"team","value":{"names":["a"]}}]}}`)
	w.run()
	claims := w.verified("sales", "aws.api", "aws.refresh-worker")
	for _, c := range claims {
		if team, _ := c["team"].(map[string]any); c["aud"] != "mine" || team == nil {
			t.Errorf("%v", c)
		}
	}
	w.change(&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, `{"spec":{"host":"other.`+w.namespace+`.example.com"}}`)
	w.run()
	if iss := w.verified("sales", "aws.api", "aws.refresh-worker")["aws.api"]["iss"]; iss != "https://other."+w.namespace+".example.com/oidc" {
		t.Errorf("issuer %v", iss)
	}
}
