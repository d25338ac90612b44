package tenant

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

// A change with a secret for an integration whose Secret was not created over REST is rejected as a whole: the new client id
// must not go with the old secret.
func TestAChangeIsRejectedAsAWhole(t *testing.T) {
	of := metav1.ObjectMeta{Namespace: "demo", Name: "lake"}
	i := &v1alpha1.OAuthIntegration{ObjectMeta: of, Spec: v1alpha1.OAuthIntegrationSpec{
		Type: "lake", AuthorizationURL: "https://login.example.com/authorize", TokenURL: "https://login.example.com/token", ClientID: "quoin",
		ClientSecretRef: v1alpha1.SecretKeyReference{Name: "lake", Key: "value"},
	}}
	i.UID, i.Labels = "i1", map[string]string{v1alpha1.LabelID: "7"}
	k8s := fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(i, &corev1.Secret{ObjectMeta: of, Data: map[string][]byte{"value": []byte("by-hand")}}).Build()
	a := &api{Options: Options{Kube: kube.NewClient(k8s, k8s, "test")}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // no cache tells of a change
	defer cancel()
	ctx = (&rest.Scope{Account: &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Namespace: "demo", Host: "demo.example.com"}}}).With(ctx)
	in := &UpdateIntegrationInput{IntegrationInput: IntegrationInput{ID: "7"}}
	in.Body = &struct {
		IntegrationProperties
		ClientSecret rest.Nullable[string] `json:"clientSecret,omitempty" secret:"true" minLength:"1" maxLength:"4096" doc:"Kept when absent or null."`
	}{
		IntegrationProperties{
			Name: "Lake", Type: "lake", AuthURL: "https://login.example.com/authorize", TokenURL: "https://login.example.com/token",
			ClientID: "another", RedirectURI: "https://demo.example.com/auth/integrations/callback",
		},
		rest.Nullable[string]{Given: true, Value: ptr.To("of-another")},
	}
	if _, err := a.updateIntegration(ctx, in); err == nil || !strings.Contains(err.Error(), "clientSecret") {
		t.Errorf("error %v", err)
	}
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(i), i); err != nil || i.Spec.ClientID != "quoin" {
		t.Errorf("the client id of a rejected change is %q, %v", i.Spec.ClientID, err)
	}
}
