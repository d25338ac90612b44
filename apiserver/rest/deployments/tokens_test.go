package deployments

import (
	"errors"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

// An environment with an invalid setting has no Secrets until it is changed: there is no token for it, which is no failure of the
// server.
func TestNoTokenBeforeTheEnvironmentIsSetUp(t *testing.T) {
	production := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: v1alpha1.ProductionName("sales"), Labels: map[string]string{v1alpha1.LabelID: "1"}}}
	k8s := fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(production).Build()
	ctx := (&rest.Scope{
		Account:    &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Namespace: "acme"}},
		Principal:  &auth.Principal{Kind: auth.KindAPIKey, Name: "ci", Grants: access.OnAll(v1alpha1.PermissionDeploymentUpdate)},
		Deployment: &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales"}},
	}).With(t.Context())
	_, err := newAPI(Options{Kube: kube.NewClient(k8s, k8s, "test")}).createDeploymentToken(ctx, &DeploymentTokenInput{})
	var rejected *rest.Problem
	if !errors.As(err, &rejected) || rejected.GetStatus() != http.StatusConflict {
		t.Errorf("error %v, want a conflict", err)
	}
}
