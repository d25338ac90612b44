package oauthintegration

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
	"github.com/quoin-dev/quoin/internal/tenant"
)

func integration(name string, second int64, id string) *v1alpha1.OAuthIntegration {
	i := &v1alpha1.OAuthIntegration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(second, 0), Labels: map[string]string{},
		},
		Spec: v1alpha1.OAuthIntegrationSpec{
			Type: "databricks", AuthorizationURL: "https://login.example.com/authorize", TokenURL: "https://login.example.com/token", ClientID: "quoin",
			ClientSecretRef: v1alpha1.SecretKeyReference{Name: "client", Key: "secret"},
		},
	}
	if id != "" {
		i.Labels[v1alpha1.LabelID] = id
	}
	return i
}

func secret(value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "client"}, Data: map[string][]byte{"secret": []byte(value)}}
}

// newAPI returns a fake client with objects and an account.
func newAPI(t *testing.T, objs ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objs = append(objs, &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", Annotations: map[string]string{v1alpha1.AnnotationIssuedIDs: "oauthintegrations=3"}},
		Spec:       v1alpha1.AccountSpec{Namespace: "acme", Host: "acme.example.com"},
	})
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).WithStatusSubresource(&v1alpha1.OAuthIntegration{}).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).Build()
}

// reconcileOnce reconciles an integration and returns it, with the time until the next reconciliation.
func reconcileOnce(t *testing.T, api client.WithWatch, name string) (*v1alpha1.OAuthIntegration, time.Duration) {
	t.Helper()
	k := kube.NewClient(api, api, "quoin-test")
	r := New(k, events.NewFakeRecorder(10), clocktesting.NewFakePassiveClock(time.Now()), ids.New(k))
	key := client.ObjectKey{Namespace: "acme", Name: name}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		t.Fatal(err)
	}
	i := &v1alpha1.OAuthIntegration{}
	if err := api.Get(t.Context(), key, i); err != nil {
		t.Fatal(err)
	}
	return i, result.RequeueAfter
}

func wantReady(t *testing.T, i *v1alpha1.OAuthIntegration, reason, message string) {
	t.Helper()
	c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, message) || (c.Status == metav1.ConditionTrue) != (reason == "Succeeded") {
		t.Errorf("%s: Ready is %+v, want %s: %s", i.Name, c, reason, message)
	}
	stalled := meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled && (reason == "Succeeded" || meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionReconciling)) {
		t.Errorf("%s: the conditions are %+v", i.Name, i.Status.Conditions)
	}
}

func TestIntegrationIsReady(t *testing.T) {
	api := newAPI(t, integration("new", 1, ""), secret("hidden"))
	i, again := reconcileOnce(t, api, "new")
	wantReady(t, i, "Succeeded", "can authorize")
	if i.Status.ID != 4 || i.Labels[v1alpha1.LabelID] != "4" || i.Status.RedirectURL != "https://acme.example.com/auth/integrations/callback" || again <= 0 {
		t.Errorf("the status is %+v, the next reconciliation is in %s", i.Status, again)
	}
	if next, _ := reconcileOnce(t, api, "new"); next.ResourceVersion != i.ResourceVersion {
		t.Error("another reconciliation writes")
	}
	for _, c := range i.Status.Conditions {
		if strings.Contains(c.Message, "hidden") {
			t.Errorf("a condition has the secret: %+v", c)
		}
	}
}

func TestIntegrationIsStalled(t *testing.T) {
	own := integration("own", 1, "2")
	own.Status.ID = 2
	foreign := integration("foreign", 1, "")
	foreign.Spec.RedirectURL = "https://other.example.com/auth/integrations/callback"
	metadata := integration("metadata", 1, "")
	metadata.Spec.TokenURL = "https://169.254.169.254/token"
	other := integration("other", 1, "")
	other.Namespace = "globex"
	for name, c := range map[string]struct {
		objs            []client.Object
		reconciled      string
		reason, message string
	}{
		"no secret":         {[]client.Object{integration("a", 1, "")}, "a", "ClientSecretUnreadable", `spec.clientSecretRef: Secret "client" does not exist; create it with the key "secret"`},
		"an empty secret":   {[]client.Object{integration("a", 1, ""), secret("\n")}, "a", "ClientSecretUnreadable", `Secret "client" has no value for the key "secret"`},
		"a foreign host":    {[]client.Object{foreign, secret("x")}, "foreign", "InvalidSpec", "spec.redirectURL:"},
		"a link-local host": {[]client.Object{metadata, secret("x")}, "metadata", "InvalidSpec", "spec.tokenURL: the address 169.254.169.254"},
		"a copied id":       {[]client.Object{own, integration("copy", 2, "2"), secret("x")}, "copy", "InvalidSpec", `the ID of OAuthIntegration "own"`},
	} {
		t.Run(name, func(t *testing.T) {
			i, _ := reconcileOnce(t, newAPI(t, c.objs...), c.reconciled)
			wantReady(t, i, c.reason, c.message)
			if !meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionStalled) {
				t.Errorf("the conditions are %+v", i.Status.Conditions)
			}
		})
	}
	api := newAPI(t, integration("a", 1, ""))
	if _, again := reconcileOnce(t, api, "a"); again <= 0 || again > retryInterval {
		t.Errorf("the secret is read again in %s", again)
	}
	if err := api.Create(t.Context(), secret("x")); err != nil {
		t.Fatal(err)
	}
	i, _ := reconcileOnce(t, api, "a")
	wantReady(t, i, "Succeeded", "")
}

func TestWithoutAccessToSecrets(t *testing.T) {
	api := interceptor.NewClient(newAPI(t, integration("a", 1, "")), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	i, again := reconcileOnce(t, api, "a")
	wantReady(t, i, "ClientSecretUnreadable", `bind ClusterRole quoin-account to quoin controller with a RoleBinding in namespace "acme"`)
	if again <= 0 {
		t.Error("it is not tried again")
	}
}

func TestOnlyTheFirstAreInEffect(t *testing.T) {
	objs := []client.Object{secret("x")}
	for n := range oauthintegration.MaxPerAccount + 1 {
		objs = append(objs, integration("a"+strings.Repeat("a", n), int64(n+1), ""))
	}
	api := newAPI(t, objs...)
	last := objs[len(objs)-1].GetName()
	i, _ := reconcileOnce(t, api, last)
	wantReady(t, i, "LimitExceeded", "only the first 64 are in effect")
	if err := api.Delete(t.Context(), objs[1]); err != nil {
		t.Fatal(err)
	}
	i, _ = reconcileOnce(t, api, last)
	wantReady(t, i, "Succeeded", "")
}
