package apiserver

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// publishTest is a repositorySecrets that counts its requests.
type publishTest struct {
	*repositorySecrets
	*testing.T
	kube          client.Client
	clock         time.Time
	reads, writes int
	fail          error
	pem           string
	output        strings.Builder
}

func newPublishTest(t *testing.T, objects ...client.Object) *publishTest {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	p := &publishTest{T: t, clock: time.Now(), pem: "first"}
	p.kube = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Deployment{}).Build()
	counted := interceptor.NewClient(p.kube.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			p.reads++
			if p.fail != nil {
				return p.fail
			}
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			p.writes++
			return c.Patch(ctx, o, patch, opts...)
		},
	})
	p.repositorySecrets = newRepositorySecrets(p.kube, counted, func() []byte { return []byte(p.pem) }, slog.New(slog.NewTextHandler(&p.output, nil)))
	p.now = func() time.Time { return p.clock }
	return p
}

// after runs a scan after a time, and checks the requests that it makes.
func (p *publishTest) after(passed time.Duration, reads, writes int) {
	p.Helper()
	p.clock, p.reads, p.writes = p.clock.Add(passed), 0, 0
	if err := p.sync(p.Context()); err != nil {
		p.Fatal(err)
	}
	if p.reads != reads || p.writes != writes {
		p.Errorf("%d reads and %d writes, want %d and %d", p.reads, p.writes, reads, writes)
	}
}

func (p *publishTest) holds(want string) {
	p.Helper()
	secret := &corev1.Secret{}
	if err := p.kube.Get(p.Context(), client.ObjectKey{Namespace: "acme", Name: "sales-repository"}, secret); err != nil {
		p.Fatal(err)
	}
	if string(secret.Data["ca.crt"]) != want || string(secret.Data["password"]) != "p" {
		p.Errorf("the Secret has ca.crt %q and password %q", secret.Data["ca.crt"], secret.Data["password"])
	}
}

func keptDeployment(name string) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name, UID: "d1"},
		Spec:       v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}},
	}
}

func keptSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales-repository"}, Data: map[string][]byte{"password": []byte("p")}}
}

// The certificate is written once, and again when it changes. At steady state, nothing is written.
func TestRepositoriesGetTheCertificate(t *testing.T) {
	onGit := keptDeployment("other")
	onGit.UID, onGit.Spec.Model = "d2", v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: "https://git.example.com/a.git"}}
	p := newPublishTest(t, keptDeployment("sales"), keptSecret(), onGit)
	p.after(0, 1, 1)
	p.holds("first")
	p.after(publishInterval, 0, 0)
	p.pem = "second"
	p.after(publishInterval, 1, 1)
	p.holds("second")
	p.after(confirmInterval, 1, 0)
}

// A Secret that does not exist yet, or that a user has deleted, gets the certificate as soon as the
// controller has created it.
func TestRepositorySecretIsCreatedLater(t *testing.T) {
	p := newPublishTest(t, keptDeployment("sales"))
	p.after(0, 1, 0)
	d := keptDeployment("sales")
	d.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonRepositoryUnavailable, LastTransitionTime: metav1.Now(),
	}}
	if err := p.kube.Get(t.Context(), client.ObjectKeyFromObject(d), &v1alpha1.Deployment{}); err != nil {
		t.Fatal(err)
	}
	if err := p.kube.Status().Patch(t.Context(), d, client.MergeFrom(keptDeployment("sales"))); err != nil {
		t.Fatal(err)
	}
	if err := p.kube.Create(t.Context(), keptSecret()); err != nil {
		t.Fatal(err)
	}
	p.after(publishInterval/2, 1, 1)
	p.holds("first")
}

// Without permission, the server logs once what an administrator must do, and reads less often.
func TestRepositorySecretIsForbidden(t *testing.T) {
	p := newPublishTest(t, keptDeployment("sales"), keptSecret())
	p.fail = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "sales-repository", nil)
	p.after(0, 1, 0)
	p.after(publishInterval, 1, 0)
	p.after(publishInterval, 0, 0)
	if n := strings.Count(p.output.String(), "quoin-account-apiserver"); n != 1 {
		t.Errorf("%d lines name the role:\n%s", n, p.output.String())
	}
	p.fail = nil
	p.after(maxPublishDelay, 1, 1)
	p.holds("first")
}
