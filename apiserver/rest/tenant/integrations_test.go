package tenant

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

// A change with a secret for an integration whose Secret was not created over REST is rejected as a whole: the new client id
// must not go with the old secret. A field that is in Git is named rather than the Secret.
func TestAChangeWithASecretIsRejectedAsAWhole(t *testing.T) {
	for name, c := range map[string]struct{ manager, want string }{
		"made with kubectl": {"kubectl-edit", "clientSecret"},
		"applied from Git":  {"argocd-controller", "argocd-controller"},
	} {
		t.Run(name, func(t *testing.T) {
			of := metav1.ObjectMeta{Namespace: "demo", Name: "lake"}
			i := &v1alpha1.OAuthIntegration{ObjectMeta: of, Spec: v1alpha1.OAuthIntegrationSpec{
				Type: "lake", AuthorizationURL: "https://login.example.com/authorize", TokenURL: "https://login.example.com/token", ClientID: "quoin",
				ClientSecretRef: v1alpha1.SecretKeyReference{Name: "lake", Key: "value"},
			}}
			i.UID, i.Labels = "i1", map[string]string{v1alpha1.LabelID: "7"}
			i.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: c.manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.GroupVersion.String(),
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:clientID":{}}}`),
			}}
			held := &corev1.Secret{ObjectMeta: of, Data: map[string][]byte{"value": []byte("by-hand")}}
			k8s := fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithReturnManagedFields().WithObjects(i, held).Build()
			a := &api{Options: Options{Kube: kube.NewClient(k8s, k8s, "test")}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // no cache tells of a change
			defer cancel()
			ctx = (&rest.Scope{Account: &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Namespace: "demo", Host: "demo.example.com"}}}).With(ctx)
			in := &UpdateIntegrationInput{}
			if err := json.Unmarshal([]byte(`{"ID":"7","Body":{"name":"Lake","type":"lake","authUrl":"https://login.example.com/authorize",
				"tokenUrl":"https://login.example.com/token","clientId":"another","redirectUri":"https://demo.example.com/auth/integrations/callback",
				"clientSecret":"of-another"}}`), in); err != nil {
				t.Fatal(err)
			}
			if _, err := a.updateIntegration(ctx, in); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(i), i); err != nil || i.Spec.ClientID != "quoin" {
				t.Errorf("the client id of a rejected change is %q, %v", i.Spec.ClientID, err)
			}
			if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(held), held); err != nil || string(held.Data["value"]) != "by-hand" {
				t.Errorf("the secret of a rejected change is %q, %v", held.Data["value"], err)
			}
		})
	}
}
