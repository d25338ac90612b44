package oauth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/oauthprovider"
)

const integrationsPath = "/api/v1/oauth-integrations/" // as the command-line client sends it

// properties returns valid properties of an integration, with changes; nil removes one.
func (a *account) properties(changes map[string]any) map[string]any {
	all := map[string]any{
		"name": "Warehouse", "type": "warehouse", "authUrl": "https://login.example.com/authorize", "tokenUrl": "https://login.example.com/token",
		"clientId": "quoin", "clientSecret": "hidden-secret", "redirectUri": a.url() + "/auth/integrations/callback",
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// integration creates an integration over REST, and deletes it after the test. It returns the path.
func (a *account) integration(t *testing.T, changes map[string]any) string {
	t.Helper()
	created := a.call(t, a.admin, "POST", integrationsPath, a.properties(changes)).Is(200)
	path := fmt.Sprintf("%s%.0f", integrationsPath, created.At("id"))
	t.Cleanup(func() {
		if got := a.call(t, a.admin, "DELETE", path, nil); got.Status != 200 && got.Status != 404 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	})
	return path
}

// object returns the object of an integration.
func (a *account) object(t *testing.T, path string) *v1alpha1.OAuthIntegration {
	t.Helper()
	list := &v1alpha1.OAuthIntegrationList{}
	number := strings.TrimPrefix(path, integrationsPath)
	if err := k8s.List(t.Context(), list, client.InNamespace(a.name), client.MatchingLabels{v1alpha1.LabelID: number}); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d objects, %v", len(list.Items), err)
	}
	return &list.Items[0]
}

func TestIntegrationsAreManagedOverREST(t *testing.T) {
	first := acme.integration(t, map[string]any{
		"scopes": []string{"sql", "offline_access"},
		"config": map[string]any{"revocationUrl": "https://login.example.com/revoke", "clientAuthentication": "post", "authorizationParameters": map[string]any{"access_type": "offline"}, "region": "eu"},
	})
	second := acme.integration(t, map[string]any{"name": "Second", "clientSecret": "second-secret"})
	list := acme.call(t, acme.admin, "GET", integrationsPath, nil).Is(200).Want(map[string]string{
		"length": "2", "0.name": `"Warehouse"`, "0.type": `"warehouse"`, "0.authUrl": `"https://login.example.com/authorize"`, "0.tokenUrl": `"https://login.example.com/token"`,
		"0.clientId": `"quoin"`, "0.redirectUri": `"https://acme.example.com/auth/integrations/callback"`, "0.scopes": `["sql","offline_access"]`,
		"0.config.revocationUrl": `"https://login.example.com/revoke"`, "0.config.clientAuthentication": `"post"`, "0.config.region": `"eu"`,
		"0.config.authorizationParameters": `{"access_type":"offline"}`, "1.name": `"Second"`, "1.config": "null", "1.scopes": "null",
	})
	if list.At("0.createdAt") == nil || list.At("0.updatedAt") == nil {
		t.Errorf("no times: %s", list.Body)
	}
	object := acme.object(t, first)
	if ref := object.Spec.ClientSecretRef; !strings.HasPrefix(ref.Name, object.Name+"-oauth-client-") || ref.Key != "clientSecret" {
		t.Errorf("the reference is %+v", ref)
	}
	acme.hasSecret(t, object, "hidden-secret")
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("the conditions are %+v", object.Status.Conditions)
		}
		return nil
	})

	change := acme.properties(map[string]any{"name": "Lake", "clientSecret": nil, "tokenUrl": "https://login.example.com/v2/token"})
	acme.call(t, acme.admin, "PUT", first, change).Is(200).Want(map[string]string{
		"name": `"Lake"`, "tokenUrl": `"https://login.example.com/v2/token"`, "scopes": `["sql","offline_access"]`, "config.region": `"eu"`,
	})
	acme.hasSecret(t, object, "hidden-secret")
	acme.call(t, acme.admin, "PUT", first, acme.properties(map[string]any{"clientSecret": nil, "tokenUrl": "https://evil.example/token"})).Rejected(400, "tokenUrl", "evil.example", "clientSecret")
	acme.call(t, acme.admin, "GET", first, nil).Is(200).Want(map[string]string{"tokenUrl": `"https://login.example.com/v2/token"`})
	change["clientSecret"], change["scopes"], change["config"] = "rotated-secret", []string{}, map[string]any{}
	acme.call(t, acme.admin, "PUT", first, change).Is(200).Want(map[string]string{"scopes": "null", "config": "null"})
	acme.hasSecret(t, object, "rotated-secret")
	acme.call(t, acme.admin, "GET", first, nil).Is(200).Want(map[string]string{"name": `"Lake"`})
	for method, body := range map[string]any{"GET": nil, "PUT": globex.properties(nil), "DELETE": nil} {
		globex.call(t, globex.admin, method, integrationsPath+"4711", body).Rejected(404, "id")
	}
	globex.call(t, globex.admin, "GET", integrationsPath, nil).Is(200).Want(map[string]string{"length": "0"})
	acme.call(t, acme.admin, "DELETE", second, nil).Is(200)
	acme.call(t, acme.admin, "DELETE", second, nil).Rejected(404, "id")

	text := acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export", nil).Is(200).Body
	for _, event := range []string{"Created OAuth integration", "Updated OAuth integration", "Deleted OAuth integration"} {
		if !bytes.Contains(text, []byte(event)) {
			t.Errorf("the audit log has no event %q", event)
		}
	}
	for _, secret := range []string{"hidden-secret", "second-secret", "rotated-secret"} {
		if bytes.Contains(text, []byte(secret)) || bytes.Contains(list.Body, []byte(secret)) {
			t.Errorf("%s is shown", secret)
		}
	}
}

// hasSecret checks the client's secret of an integration in its Secret, which is deleted with it.
func (a *account) hasSecret(t *testing.T, i *v1alpha1.OAuthIntegration, want string) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: a.name, Name: i.Spec.ClientSecretRef.Name}, secret); err != nil {
		t.Fatal(err)
	}
	if got := string(secret.Data[i.Spec.ClientSecretRef.Key]); got != want || !metav1.IsControlledBy(secret, i) {
		t.Errorf("the secret is %q, its owners are %+v", got, secret.OwnerReferences)
	}
}

func TestInvalidIntegrationsAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		changes map[string]any
		words   []string
	}{
		"no name":             {map[string]any{"name": nil}, []string{"name"}},
		"no secret":           {map[string]any{"clientSecret": nil}, []string{"clientSecret"}},
		"an empty secret":     {map[string]any{"clientSecret": ""}, []string{"clientSecret"}},
		"a type with a dot":   {map[string]any{"type": "a.b"}, []string{"type"}},
		"http":                {map[string]any{"authUrl": "http://login.example.com/"}, []string{"authUrl", "https://"}},
		"a user in a URL":     {map[string]any{"tokenUrl": "https://user@login.example.com/"}, []string{"tokenUrl"}},
		"a link-local host":   {map[string]any{"tokenUrl": "https://169.254.169.254/token"}, []string{"tokenUrl", "169.254.169.254"}},
		"a foreign redirect":  {map[string]any{"redirectUri": "https://globex.example.com/auth/integrations/callback"}, []string{"redirectUri", "acme.example.com"}},
		"another path":        {map[string]any{"redirectUri": "https://acme.example.com/callback"}, []string{"redirectUri"}},
		"a scope of two":      {map[string]any{"scopes": []string{"a b"}}, []string{"scopes[0]", "a b"}},
		"a scope twice":       {map[string]any{"scopes": []string{"a", "a"}}, []string{"scopes[1]"}},
		"revocation by http":  {map[string]any{"config": map[string]any{"revocationUrl": "http://a.example.com"}}, []string{"config.revocationUrl"}},
		"authentication":      {map[string]any{"config": map[string]any{"clientAuthentication": "none"}}, []string{"config.clientAuthentication", "basic, post"}},
		"a parameter of flow": {map[string]any{"config": map[string]any{"authorizationParameters": map[string]any{"state": "a"}}}, []string{"config.authorizationParameters", "state"}},
		"a secret in config":  {map[string]any{"config": map[string]any{"api_secret": "visible"}}, []string{"config", "api_secret"}},
		"large config":        {map[string]any{"config": map[string]any{"a": strings.Repeat("a", 9000)}}, []string{"config", "8192"}},
		"unknown property":    {map[string]any{"path": "/tmp"}, []string{"path"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := acme.call(t, acme.admin, "POST", integrationsPath, acme.properties(c.changes))
			got.Rejected(400, c.words...)
			if bytes.Contains(got.Body, []byte("hidden-secret")) {
				t.Errorf("the error has the secret: %s", got.Body)
			}
		})
	}
	acme.call(t, acme.admin, "POST", integrationsPath, nil).Is(400)
	acme.call(t, acme.admin, "GET", integrationsPath, nil).Is(200).Want(map[string]string{"length": "0"})
	for method, path := range map[string]string{"GET": integrationsPath, "POST": integrationsPath, "PUT": integrationsPath + "1", "DELETE": integrationsPath + "1"} {
		acme.call(t, acme.reader, method, path, nil).Rejected(403, "OAuthIntegrationsManage")
		acme.call(t, "", method, path, nil).Is(401)
	}
}

// TestIntegrationsOfGit: an integration that is applied with kubectl is shown, and keeps its Secret.
func TestIntegrationsOfGit(t *testing.T) {
	const applied = `{"apiVersion":"platform.quoin.dev/v1alpha1","kind":"OAuthIntegration","metadata":{"name":"lake"},"spec":{"type":"lake",
		"authorizationURL":"https://login.example.com/authorize","tokenURL":"https://login.example.com/token","clientID":"quoin","clientSecretRef":{"name":"lake","key":"value"}}}`
	held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: globex.name, Name: "lake"}, Data: map[string][]byte{"value": []byte("of-git")}}
	i := &v1alpha1.OAuthIntegration{ObjectMeta: metav1.ObjectMeta{Namespace: globex.name, Name: "lake"}}
	if err := errors.Join(k8s.Create(t.Context(), held), k8s.Patch(t.Context(), i, client.RawPatch(types.ApplyPatchType, []byte(applied)), client.FieldOwner("argocd-controller"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(t.Context(), i) })
	var list *apiclient.Answer
	apiclient.Soon(t, func() error {
		if list = globex.call(t, globex.admin, "GET", integrationsPath, nil).Is(200); list.At("length") != 1.0 {
			return errors.New("the integration is not listed")
		}
		return nil
	})
	list.Want(map[string]string{"0.name": `"lake"`, "0.redirectUri": `"https://globex.example.com/auth/integrations/callback"`})
	id, _ := json.Marshal(list.At("0.id"))
	path := integrationsPath + string(id)
	globex.call(t, globex.admin, "DELETE", path, nil).Rejected(409, "argocd-controller")
	globex.call(t, globex.admin, "PUT", path, globex.properties(nil)).Rejected(409, "argocd-controller")
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(held), held); err != nil || string(held.Data["value"]) != "of-git" {
		t.Errorf("the secret is %q, %v", held.Data["value"], err)
	}
}

// TestCommandLine sends the calls of the command-line client and reads what it reads.
func TestCommandLine(t *testing.T) {
	data, err := os.ReadFile("testdata/cli-calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var calls []struct {
		Command, Method, Path string
		Body                  map[string]any
		Reads                 []string
	}
	if err := json.Unmarshal(data, &calls); err != nil {
		t.Fatal(err)
	}
	provider, id := oauthprovider.New(), ""
	defer provider.Close()
	t.Cleanup(func() { acme.call(t, acme.admin, "DELETE", integrationsPath+id, nil) })
	for _, c := range calls {
		if c.Body != nil {
			e := provider.Endpoints()
			maps.Copy(c.Body, map[string]any{"authUrl": e.Authorization, "tokenUrl": e.Token, "clientId": e.ClientID})
			if c.Body["clientSecret"] != nil {
				c.Body["clientSecret"] = e.ClientSecret
			}
		}
		if c.Command == "integrations tokens initiate" {
			acme.awaitReady(t, id)
			acme.authorize(t, id)
		}
		var body any
		if c.Body != nil {
			body = c.Body
		}
		a := acme.call(t, acme.ada, c.Method, strings.ReplaceAll(c.Path, "{integrationId}", id), body).Is(200)
		if id == "" {
			id = fmt.Sprintf("%.0f", a.At("id"))
		}
		for _, path := range c.Reads {
			if a.At(path) == nil {
				t.Errorf("%s: no %s: %s", c.Command, path, a.Body)
			}
		}
	}
}
