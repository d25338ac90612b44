package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/guide"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/tenants"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// trusting authenticates callers while the account trusts an issuer.
type trusting struct{}

func (trusting) Authenticate(_ context.Context, account *v1alpha1.Account, _ *http.Request) (*auth.Principal, error) {
	if len(account.Spec.OIDCIssuers) == 0 {
		return nil, auth.ErrNoCredential
	}
	return &auth.Principal{Account: account.Name}, nil
}

// TestAgain: a request that takes minutes ends when its account no longer trusts the issuer of its credential, and when the account
// is replaced by another one of the name.
func TestAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	account := &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a1"},
		Spec:       v1alpha1.AccountSpec{Namespace: "acme", OIDCIssuers: []v1alpha1.OIDCIssuer{{URL: "https://id.example.com"}}},
	}
	namespace := func(o client.Object) []string {
		a, ok := o.(*v1alpha1.Account)
		if !ok {
			return nil
		}
		return []string{a.Spec.Namespace}
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(account.DeepCopy()).WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, namespace).Build()
	f := &handler{tenants: tenants.Tenants{Reader: kube}, authenticator: trusting{}}
	again := f.again(account, httptest.NewRequest(http.MethodGet, "/", nil))
	if p, err := again(t.Context()); err != nil || p.Account != "acme" {
		t.Fatal(p, err)
	}
	other := account.DeepCopy()
	other.UID = "a0"
	if _, err := f.again(other, httptest.NewRequest(http.MethodGet, "/", nil))(t.Context()); !errors.Is(err, auth.ErrNoCredential) {
		t.Errorf("the caller of a deleted account: %v", err)
	}
	changed := &v1alpha1.Account{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(account), changed); err != nil {
		t.Fatal(err)
	}
	changed.Spec.OIDCIssuers = nil
	if err := kube.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if _, err := again(t.Context()); !errors.Is(err, auth.ErrNoCredential) {
		t.Errorf("the issuer was removed: %v", err)
	}
}

// TestDocsOnTheAggregatedAPI: callers of the aggregated API, whose requests do not go through the routing of hosts, read the
// reference and the guides too.
func TestDocsOnTheAggregatedAPI(t *testing.T) {
	api, err := rest.New(rest.Options{Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	f := &handler{api: api, guides: guide.Guides{"/docs/ai": []byte("<h1>AI</h1>")}, limits: newLimits(100, 100)}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	p := &auth.Principal{Kind: auth.KindKubernetes, Account: "acme", ID: "ada"}
	for path, want := range map[string]string{"/docs": "Quoin Platform API", "/docs/ai": "<h1>AI</h1>"} {
		got := httptest.NewRecorder()
		f.serve(got, httptest.NewRequest(http.MethodGet, path, nil), account, p)
		if got.Code != http.StatusOK || got.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: %d %v %.200s, want %q", path, got.Code, got.Header(), got.Body, want)
		}
	}
}
