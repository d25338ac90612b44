package apikey

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
)

func TestTokenIsGeneratedOnce(t *testing.T) {
	for name, wanted := range map[string]string{"": "etl-token", "vault": "vault"} {
		t.Run(wanted, func(t *testing.T) {
			f := newFixture(t)
			f.key(v1alpha1.ApiKeySpec{TokenSecretName: name})
			k, _ := f.reconcile()
			f.expect(k, "True", "Succeeded", "Has the")
			s := f.secret(wanted)
			if s == nil || !metav1.IsControlledBy(s, k) || len(s.Data) != 1 {
				t.Fatalf("the secret is %v", s)
			}
			token, err := apikey.Parse(string(s.Data["token"]))
			f.must(err)
			if diff := cmp.Diff(ptr.To(token.Hash()), k.Status.Token); diff != "" {
				t.Errorf("status.token (-want +got):\n%s", diff)
			}
			f.expectSettled()
			f.must(f.api.Delete(t.Context(), s))
			f.expectSettled()
			if f.secret(wanted) != nil {
				t.Error("the deleted secret was created again")
			}
		})
	}
}

func TestTokenOfTheSpec(t *testing.T) {
	f := newFixture(t)
	hash := newToken(t).Hash()
	f.key(v1alpha1.ApiKeySpec{Token: &hash})
	k, _ := f.reconcile()
	f.expect(k, "True", "Succeeded", "Has the")
	if k.Status.Token != nil || f.secret("etl-token") != nil {
		t.Errorf("status.token is %v, the secret %v", k.Status.Token, f.secret("etl-token"))
	}
	f.expectSettled()
}

// TestTokenSurvivesACrash between the creation of the Secret and the status patch.
func TestTokenSurvivesACrash(t *testing.T) {
	f := newFixture(t)
	f.key(v1alpha1.ApiKeySpec{})
	f.before = func(verb string, _ client.Object) error {
		if verb == "patch" {
			return errors.New("the lights went out")
		}
		return nil
	}
	if k, _, err := f.try(); err == nil || k.Status.Token != nil || f.secret("etl-token") == nil {
		t.Fatalf("got %v, status.token %v", err, k.Status.Token)
	}
	token, err := apikey.Parse(string(f.secret("etl-token").Data["token"]))
	f.must(err)
	f.before = func(string, client.Object) error { return nil }
	k, _ := f.reconcile()
	if diff := cmp.Diff(ptr.To(token.Hash()), k.Status.Token); diff != "" {
		t.Errorf("status.token (-want +got):\n%s", diff)
	}
	f.expectSettled()
}

func TestSecretOfAnotherOwnerIsKept(t *testing.T) {
	f := newFixture(t)
	token := newToken(t)
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "etl-token"}, Data: map[string][]byte{"token": []byte(token.Reveal())}})
	f.key(v1alpha1.ApiKeySpec{})
	k, result := f.reconcile()
	f.expect(k, "False", "SecretTaken", `secret "etl-token" exists and does not belong`)
	if s := f.secret("etl-token"); string(s.Data["token"]) != token.Reveal() || len(s.OwnerReferences) != 0 || k.Status.Token != nil {
		t.Errorf("status.token %v, secret %v", k.Status.Token, s.ObjectMeta)
	}
	if result.RequeueAfter != secretRetryInterval {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
	f.expectSettled()
	f.must(f.api.Delete(t.Context(), f.secret("etl-token")))
	k, _ = f.reconcile()
	f.expect(k, "True", "Succeeded", "Has the")
}

func TestInvalidSecretIsReported(t *testing.T) {
	for name, content := range map[string]map[string][]byte{
		"malformed": {"token": []byte("hunter2-hunter2")},
		"other key": {"password": []byte("hunter2-hunter2")},
		"empty":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			k := f.key(v1alpha1.ApiKeySpec{})
			owner := *metav1.NewControllerRef(k, v1alpha1.GroupVersion.WithKind("ApiKey"))
			f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "etl-token", OwnerReferences: []metav1.OwnerReference{owner}}, Data: content})
			k, _ = f.reconcile()
			f.expect(k, "False", "TokenUnreadable", `key "token" of secret "etl-token" has no valid token`)
			if text := cmp.Diff(nil, k); strings.Contains(text, "hunter2") {
				t.Error("the status contains the value of the secret")
			}
			f.expectSettled()
		})
	}
}

// TestWithoutReadAccessToSecrets: the controller may create Secrets, but not read them without a
// grant.
func TestWithoutReadAccessToSecrets(t *testing.T) {
	f := newFixture(t)
	f.before = func(verb string, obj client.Object) error {
		if _, ok := obj.(*corev1.Secret); ok && verb == "get" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, obj.GetName(), nil)
		}
		return nil
	}
	f.key(v1alpha1.ApiKeySpec{})
	k, _ := f.reconcile()
	f.expect(k, "True", "Succeeded", "Has the")
	f.expectSettled()

	f.must(f.api.Delete(t.Context(), k))
	f.key(v1alpha1.ApiKeySpec{}) // the Secret of the previous key is not garbage-collected here
	k, _ = f.reconcile()
	f.expect(k, "False", "TokenUnreadable", "bind ClusterRole quoin-account")
}

func TestInvalidSecretNameIsReported(t *testing.T) {
	f := newFixture(t)
	f.key(v1alpha1.ApiKeySpec{TokenSecretName: "No Name"})
	k, _ := f.reconcile()
	f.expect(k, "False", "InvalidSpec", `spec.tokenSecretName: "No Name"`)
	f.expectSettled()
}

func TestRevokedKeyKeepsItsHash(t *testing.T) {
	f := newFixture(t)
	k := f.key(v1alpha1.ApiKeySpec{})
	f.reconcile()
	f.must(f.api.Patch(t.Context(), k, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"revoked":true}}`))))
	k, _ = f.reconcile()
	f.expect(k, "False", "Revoked", "revoked")
	if k.Status.Token == nil {
		t.Error("the hash was removed")
	}
	f.expectSettled()
}

func TestRevokedKeyGetsNoToken(t *testing.T) {
	f := newFixture(t)
	f.key(v1alpha1.ApiKeySpec{Revoked: ptr.To(true)})
	k, _ := f.reconcile()
	f.expect(k, "False", "Revoked", "revoked")
	if k.Status.Token != nil || f.secret("etl-token") != nil {
		t.Error("a token was generated")
	}
}

// TestExpiryChangesTheStatus at the expiration time, without a watch event.
func TestExpiryChangesTheStatus(t *testing.T) {
	f := newFixture(t)
	f.key(v1alpha1.ApiKeySpec{ExpirationTime: ptr.To(metav1.NewTime(start.Add(time.Hour)))})
	k, result := f.reconcile()
	f.expect(k, "True", "Succeeded", "Has the")
	if result.RequeueAfter != time.Hour {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
	f.expectSettled()
	f.clock.SetTime(start.Add(result.RequeueAfter))
	k, result = f.reconcile()
	f.expect(k, "False", "Expired", "expired")
	if result.RequeueAfter != 0 {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
	f.expectSettled()
}

// TestKeyWithoutAccount: a key in a namespace of no account allows nothing.
func TestKeyWithoutAccount(t *testing.T) {
	f := newFixture(t)
	f.key(v1alpha1.ApiKeySpec{})
	f.reconcile()
	f.must(f.api.Delete(t.Context(), named[v1alpha1.Account]("", f.namespace)))
	k, _ := f.reconcile()
	f.expect(k, "False", "AccountNotFound", f.namespace)
	f.expectSettled()
}

func TestKeyDependsOnItsOwner(t *testing.T) {
	f := newFixture(t)
	f.key(v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ann"}})
	k, _ := f.reconcile()
	f.expect(k, "False", "OwnerNotFound", `"ann"`)
	f.expectSettled()
	ann := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Name: "ann"}, Spec: v1alpha1.ScimUserSpec{UserName: "ann@example.com"}}
	f.create(ann)
	k, _ = f.reconcile()
	f.expect(k, "True", "Succeeded", "Has the")
	token := k.Status.Token
	ann.Spec.Active = ptr.To(false)
	f.must(f.api.Update(t.Context(), ann))
	k, _ = f.reconcile()
	f.expect(k, "False", "OwnerInactive", `"ann"`)
	f.expectSettled()
	ann.Spec.Active = ptr.To(true)
	f.must(f.api.Update(t.Context(), ann))
	k, _ = f.reconcile()
	f.expect(k, "True", "Succeeded", "Has the")
	if token == nil || *k.Status.Token != *token {
		t.Errorf("the token was %v and is %v", token, k.Status.Token)
	}
}

func TestMissingDeploymentsAreReported(t *testing.T) {
	f := newFixture(t)
	f.key(v1alpha1.ApiKeySpec{Deployments: []string{"hr", "sales"}})
	k, _ := f.reconcile()
	f.expect(k, "True", "Succeeded", `does not exist: "hr", "sales"`)
	f.expectSettled()
}

// TestEventsOnChanges: events are recorded when Ready changes, and contain no token.
func TestEventsOnChanges(t *testing.T) {
	f := newFixture(t)
	k := f.key(v1alpha1.ApiKeySpec{})
	f.reconcile()
	f.reconcile()
	f.must(f.api.Patch(t.Context(), k, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"revoked":true}}`))))
	f.reconcile()
	f.reconcile()
	close(f.recorder.Events)
	var got []string
	for e := range f.recorder.Events {
		got = append(got, e)
	}
	want := []string{"Normal Succeeded Has the permission Admin, because spec.permissions is absent: it allows everything, on all deployments of the account", "Warning Revoked The API key has been revoked"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestFailedCallsAreRetried: a retry does not generate a second token.
func TestFailedCallsAreRetried(t *testing.T) {
	refused := errors.New("connection refused")
	for _, verb := range []string{"get", "create", "patch"} {
		t.Run(verb, func(t *testing.T) {
			f := newFixture(t)
			f.key(v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ann"}, Deployments: []string{"sales"}})
			f.create(&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Name: "ann"}, Spec: v1alpha1.ScimUserSpec{UserName: "ann@example.com"}})
			failed := map[string]bool{}
			f.before = func(v string, obj client.Object) error {
				kind := fmt.Sprintf("%T", obj)
				if v == verb && !failed[kind] {
					failed[kind] = true
					return refused
				}
				return nil
			}
			for attempt := 0; ; attempt++ {
				k, _, err := f.try()
				if err == nil {
					f.expect(k, "True", "Succeeded", "Has the")
					if !apikey.Equal(*k.Status.Token, f.token().Hash()) {
						t.Error("the hash is not that of the token in the secret")
					}
					break
				}
				if attempt == 10 {
					t.Fatal(err)
				}
			}
			if len(failed) == 0 {
				t.Error("nothing failed")
			}
		})
	}
}

// TestWatchesEnqueueAffectedKeys: a user enqueues its keys, a deployment the keys that name it.
func TestWatchesEnqueueAffectedKeys(t *testing.T) {
	f := newFixture(t)
	f.key(v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ann"}, Deployments: []string{"sales"}})
	f.create(&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: "bob"}}})
	f.create(&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
	etl := client.ObjectKey{Namespace: f.namespace, Name: "etl"}
	cases := map[string]struct {
		got  []ctrl.Request
		want int
	}{
		"owner":                      {ofOwner(f.api)(t.Context(), named[v1alpha1.ScimUser](f.namespace, "ann")), 1},
		"other user":                 {ofOwner(f.api)(t.Context(), named[v1alpha1.ScimUser](f.namespace, "eve")), 0},
		"owner in another namespace": {ofOwner(f.api)(t.Context(), named[v1alpha1.ScimUser]("default", "ann")), 0},
		"deployment of the key":      {ofDeployment(f.api)(t.Context(), named[v1alpha1.Deployment](f.namespace, "sales")), 1},
		"other deployment":           {ofDeployment(f.api)(t.Context(), named[v1alpha1.Deployment](f.namespace, "hr")), 0},
		"other namespace":            {ofDeployment(f.api)(t.Context(), named[v1alpha1.Deployment]("default", "sales")), 0},
	}
	for name, tc := range cases {
		if len(tc.got) != tc.want || tc.want == 1 && tc.got[0].NamespacedName != etl {
			t.Errorf("%s: %v", name, tc.got)
		}
	}
}

func named[T any, P interface {
	*T
	client.Object
}](namespace, name string) client.Object {
	obj := P(new(T))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}
