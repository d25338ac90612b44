package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/guide"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/tenants"
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
	account := &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a1"},
		Spec:       v1alpha1.AccountSpec{Namespace: "acme", OIDCIssuers: []v1alpha1.OIDCIssuer{{URL: "https://id.example.com"}}},
	}
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1alpha1.Account{}, 0, toolscache.Indexers{})
	known, err := tenants.New(informer, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := informer.GetIndexer().Add(account.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f := &handler{tenants: known, authenticator: trusting{}}
	again := f.again(account, httptest.NewRequest(http.MethodGet, "/", nil))
	if p, err := again(t.Context()); err != nil || p.Account != "acme" {
		t.Fatal(p, err)
	}
	other := account.DeepCopy()
	other.UID = "a0"
	if _, err := f.again(other, httptest.NewRequest(http.MethodGet, "/", nil))(t.Context()); !errors.Is(err, auth.ErrNoCredential) {
		t.Errorf("the caller of a deleted account: %v", err)
	}
	changed := account.DeepCopy()
	changed.Spec.OIDCIssuers = nil
	if err := informer.GetIndexer().Update(changed); err != nil {
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
