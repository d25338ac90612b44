package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// errWritten ends a change at the write of the integration.
var errWritten = errors.New("written")

// A person who may manage integrations does not know the client's secret: it goes to another host only if the request has one, and then
// the Secret has the new one before the integration has the host.
func TestAnotherHostGetsNoSecret(t *testing.T) {
	for name, c := range map[string]struct {
		changes map[string]any
		secret  string
		want    string
	}{
		"another path":                   {map[string]any{"tokenUrl": "https://login.example.com/v2/token"}, "", errWritten.Error()},
		"the host of the revocation":     {map[string]any{"tokenUrl": "https://API.example.com/token"}, "", errWritten.Error()},
		"another host":                   {map[string]any{"tokenUrl": "https://evil.example/token"}, "", "tokenUrl"},
		"another port":                   {map[string]any{"tokenUrl": "https://login.example.com:8443/token"}, "", "tokenUrl"},
		"a longer host":                  {map[string]any{"tokenUrl": "https://login.example.com.evil.example/token"}, "", "tokenUrl"},
		"another host of the revocation": {map[string]any{"config": map[string]any{"revocationUrl": "https://evil.example/revoke"}}, "", "config.revocationUrl"},
		"no revocation":                  {map[string]any{"config": map[string]any{}}, "", errWritten.Error()},
		"another host with a secret":     {map[string]any{"tokenUrl": "https://evil.example/token"}, "own", errWritten.Error()},
		"another host with null":         {map[string]any{"tokenUrl": "https://evil.example/token", "clientSecret": nil}, "", "clientSecret"},
	} {
		t.Run(name, func(t *testing.T) {
			i := &v1alpha1.OAuthIntegration{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "lake", UID: "i1", Labels: map[string]string{v1alpha1.LabelID: "7"}}, Spec: v1alpha1.OAuthIntegrationSpec{
				Type: "lake", AuthorizationURL: "https://login.example.com/authorize", TokenURL: "https://login.example.com/token", RevocationURL: "https://api.example.com/revoke", ClientID: "quoin",
				ClientSecretRef: v1alpha1.SecretKeyReference{Name: "lake-client", Key: "value"},
			}}
			held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "lake-client", OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "OAuthIntegration", Name: i.Name, UID: i.UID, Controller: ptr.To(true),
			}}}, Data: map[string][]byte{"value": []byte("hidden")}}
			sent := "" // the secret that the new endpoints would get
			k8s := fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(i, held).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, to client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if _, isSecret := o.(*corev1.Secret); isSecret {
						return to.Patch(ctx, o, patch, opts...)
					}
					stored := &corev1.Secret{}
					err := to.Get(ctx, client.ObjectKeyFromObject(held), stored)
					sent = string(stored.Data["value"])
					return errors.Join(errWritten, err)
				},
			}).Build()
			a := &api{Options: Options{Kube: kube.NewClient(k8s, k8s, "test")}}
			body := map[string]any{
				"name": "Lake", "type": "lake", "authUrl": "https://login.example.com/authorize", "tokenUrl": "https://login.example.com/token", "clientId": "another",
				"redirectUri": "https://demo.example.com/auth/integrations/callback",
			}
			maps.Copy(body, c.changes)
			if c.secret != "" {
				body["clientSecret"] = c.secret
			}
			text, err := json.Marshal(map[string]any{"ID": "7", "Body": body})
			if err != nil {
				t.Fatal(err)
			}
			in := &UpdateIntegrationInput{}
			if err := json.Unmarshal(text, in); err != nil {
				t.Fatal(err)
			}
			ctx := (&rest.Scope{Account: &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Namespace: "demo", Host: "demo.example.com"}}}).With(t.Context())
			if _, err := a.updateIntegration(ctx, in); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if c.secret != "" && sent != c.secret {
				t.Errorf("the new endpoints would get the secret %q", sent)
			}
		})
	}
}
