package apikey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fixture is a reconciler with its own namespace.
type fixture struct {
	*testing.T
	api       client.WithWatch
	namespace string
	clock     *clocktesting.FakePassiveClock
	recorder  *events.FakeRecorder
	// writes counts writes; before, if not nil, is called before each of them and before each read
	// of a Secret, and its error fails the call.
	writes int
	before func(verb string, obj client.Object) error
}

func newFixture(t *testing.T) *fixture {
	api, namespace := apitest.Direct(t)
	return &fixture{
		T: t, api: api, namespace: namespace, clock: clocktesting.NewFakePassiveClock(start),
		recorder: events.NewFakeRecorder(20), before: func(string, client.Object) error { return nil },
	}
}

// client counts writes and injects errors.
func (f *fixture) client() client.WithWatch {
	return interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := f.before("get", obj); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			f.writes++
			if err := f.before("create", obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("nothing but the status is to be patched")
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			f.writes++
			if err := f.before("patch", obj); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) create(obj client.Object) {
	f.Helper()
	obj.SetNamespace(f.namespace)
	f.must(f.api.Create(f.Context(), obj))
}

// key creates an ApiKey named etl.
func (f *fixture) key(spec v1alpha1.ApiKeySpec) *v1alpha1.ApiKey {
	f.Helper()
	k := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Name: "etl"}, Spec: spec}
	f.create(k)
	return k
}

// try reconciles etl with a new reconciler.
func (f *fixture) try() (*v1alpha1.ApiKey, ctrl.Result, error) {
	f.Helper()
	c := f.client()
	name := client.ObjectKey{Namespace: f.namespace, Name: "etl"}
	result, err := New(kube.NewClient(c, c, "quoin-test"), f.recorder, f.clock).Reconcile(f.Context(), ctrl.Request{NamespacedName: name})
	k := &v1alpha1.ApiKey{}
	f.must(f.api.Get(f.Context(), name, k))
	return k, result, err
}

func (f *fixture) reconcile() (*v1alpha1.ApiKey, ctrl.Result) {
	f.Helper()
	k, result, err := f.try()
	f.must(err)
	return k, result
}

// expectSettled checks that another reconciliation writes nothing.
func (f *fixture) expectSettled() {
	f.Helper()
	f.writes = 0
	f.reconcile()
	if f.writes != 0 {
		f.Errorf("%d writes without a change", f.writes)
	}
}

func (f *fixture) secret(name string) *corev1.Secret {
	f.Helper()
	s := &corev1.Secret{}
	err := f.api.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.must(err)
	return s
}

// expect checks the conditions: Ready, and Stalled if Ready is False.
func (f *fixture) expect(k *v1alpha1.ApiKey, status metav1.ConditionStatus, reason, message string) {
	f.Helper()
	c := meta.FindStatusCondition(k.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		f.Errorf("Ready is %+v; want %s, %s: %s", c, status, reason, message)
	}
	if stalled := meta.IsStatusConditionTrue(k.Status.Conditions, v1alpha1.ConditionStalled); stalled != (status == metav1.ConditionFalse) {
		f.Errorf("Stalled: %v", stalled)
	}
	if k.Status.ObservedGeneration != k.Generation {
		f.Errorf("observedGeneration is %d of %d", k.Status.ObservedGeneration, k.Generation)
	}
}

func newToken(t *testing.T) apikey.Token {
	t.Helper()
	token, err := apikey.New(strings.NewReader(strings.Repeat(t.Name(), 100)))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

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
					if !apikey.Matches(*k.Status.Token, f.token()) {
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

func (f *fixture) token() apikey.Token {
	f.Helper()
	token, err := apikey.Parse(string(f.secret("etl-token").Data["token"]))
	f.must(err)
	return token
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
