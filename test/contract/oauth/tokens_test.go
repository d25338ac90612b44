package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/internal/keyring"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/oauthprovider"
)

const userTokensPath = "/api/v1/user-oauth-tokens/" // as the command-line client sends it

// provided creates an integration of a provider and waits until it is ready. It returns its number.
func (a *account) provided(t *testing.T, p *oauthprovider.Provider) string {
	t.Helper()
	e := p.Endpoints()
	path := a.integration(t, map[string]any{
		"type": "warehouse", "authUrl": e.Authorization, "tokenUrl": e.Token, "clientId": e.ClientID, "clientSecret": e.ClientSecret, "config": map[string]any{"revocationUrl": e.Revocation},
	})
	id := strings.TrimPrefix(path, integrationsPath)
	a.awaitReady(t, id)
	return id
}

// awaitReady waits until an integration can be authorized.
func (a *account) awaitReady(t *testing.T, id string) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if got := a.call(t, a.ada, "POST", userTokensPath+id+"/initiate", nil); got.Status != 200 {
			return fmt.Errorf("%d %s", got.Status, got.Body)
		}
		return nil
	})
}

// open opens an address in a browser, which signs in as ada at the account, and returns the page that it ends at.
func open(t *testing.T, address string) (int, string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport, Jar: jar, Timeout: apiclient.Timeout}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (a *account) authorize(t *testing.T, id string) {
	t.Helper()
	begun := a.call(t, a.ada, "POST", userTokensPath+id+"/initiate", nil).Is(200)
	address, _ := begun.At("authorizationUrl").(string)
	if status, text := open(t, address); status != 200 || !strings.Contains(text, "You have authorized") {
		t.Fatalf("%d %s", status, text)
	}
}

func TestTokensOfPeople(t *testing.T) {
	provider := oauthprovider.New()
	defer provider.Close()
	id := acme.provided(t, provider)
	acme.call(t, acme.ada, "GET", userTokensPath, nil).Is(200).Want(map[string]string{"length": "0"})
	acme.call(t, acme.ada, "GET", userTokensPath+id, nil).Rejected(404, "integrationId", "authorize it first")
	acme.call(t, acme.ada, "DELETE", userTokensPath+id, nil).Rejected(404, "integrationId")
	acme.call(t, acme.ada, "POST", userTokensPath+"4711/initiate", nil).Rejected(404, "integrationId", "4711")
	acme.authorize(t, id)
	user := fmt.Sprint(number.Of("User", "ada"))
	shown := map[string]string{"integrationId": id, "userId": user, "status": `"active"`, "lastError": "null"}
	one := acme.call(t, acme.ada, "GET", userTokensPath+id, nil).Is(200).Want(shown)
	for _, field := range []string{"id", "accessTokenExpiresAt", "refreshTokenExpiresAt", "createdAt", "updatedAt"} {
		if one.At(field) == nil {
			t.Errorf("no %s: %s", field, one.Body)
		}
	}
	list := acme.call(t, acme.ada, "GET", userTokensPath, nil).Is(200).Want(map[string]string{"length": "1", "0.status": `"active"`})
	for _, part := range []string{"access-", "refresh-", provider.ClientSecret} {
		if strings.Contains(string(list.Body)+string(one.Body), part) {
			t.Errorf("%s is shown: %s", part, list.Body)
		}
	}
	// Tokens of programs, of another account, and without a credential.
	acme.call(t, acme.admin, "GET", userTokensPath, nil).Rejected(403, "not a user")
	acme.call(t, acme.admin, "POST", userTokensPath+id+"/initiate", nil).Rejected(403, "not a user")
	acme.call(t, "", "GET", userTokensPath, nil).Is(401)
	globex.call(t, globex.ada, "GET", userTokensPath, nil).Is(200).Want(map[string]string{"length": "0"})
	globex.call(t, globex.ada, "GET", userTokensPath+id, nil).Is(404)
	globex.call(t, globex.ada, "DELETE", userTokensPath+id, nil).Is(404)
	globex.call(t, globex.ada, "POST", userTokensPath+id+"/initiate", nil).Is(404)

	acme.call(t, acme.ada, "DELETE", userTokensPath+id, nil).Is(200)
	acme.call(t, acme.ada, "GET", userTokensPath+id, nil).Is(404)
	apiclient.Soon(t, func() error {
		if n := provider.Live(); n != 0 {
			return fmt.Errorf("%d tokens are valid at the provider", n)
		}
		return nil
	})
	text := string(acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export", nil).Is(200).Body)
	for _, event := range []string{"Authorized OAuth integration", "Revoked OAuth token"} {
		if !strings.Contains(text, event) {
			t.Errorf("the audit log has no event %q", event)
		}
	}
	if strings.Contains(text, "access-") || strings.Contains(text, "refresh-") || strings.Contains(text, provider.ClientSecret) {
		t.Error("the audit log has a token")
	}
	keys := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: keyring.SecretName}, keys); err != nil || len(keys.Data["1"]) != 32 {
		t.Errorf("the keys are %d bytes, %v", len(keys.Data["1"]), err)
	}
}

// TestDeactivatedPersonLosesTokens: at once, also at the provider.
func TestDeactivatedPersonLosesTokens(t *testing.T) {
	provider := oauthprovider.New()
	defer provider.Close()
	id := acme.provided(t, provider)
	acme.authorize(t, id)
	ada := &v1alpha1.ScimUser{}
	set := func(active bool) {
		t.Helper()
		if err := k8s.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Namespace: acme.name, Name: "ada"}, ada); err != nil {
			t.Fatal(err)
		}
		before := ada.DeepCopy()
		ada.Spec.Active = ptr.To(active)
		if err := k8s.Patch(context.WithoutCancel(t.Context()), ada, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	set(false)
	apiclient.Soon(t, func() error {
		if n := provider.Live(); n != 0 {
			return fmt.Errorf("%d tokens are valid at the provider", n)
		}
		return nil
	})
	set(true)
	apiclient.Soon(t, func() error {
		if got := acme.call(t, acme.ada, "GET", userTokensPath, nil); got.Status != 200 || got.At("length") != 0.0 {
			return fmt.Errorf("%d %s", got.Status, got.Body)
		}
		return nil
	})
}

// TestDataTokensHaveCredentials: only those for deployments that name the integration, of the person who has authorized it.
func TestDataTokensHaveCredentials(t *testing.T) {
	provider := oauthprovider.New()
	defer provider.Close()
	id := acme.provided(t, provider)
	acme.authorize(t, id)
	named, other := acme.deployment(t, "named", acme.object(t, integrationsPath+id).Name), acme.deployment(t, "other", "")
	claims := acme.dataToken(t, acme.ada, named)
	person, _ := claims["cubeCloud"].(map[string]any)
	credentials, _ := person["userCredentials"].(map[string]any)
	got, _ := credentials["warehouse"].(map[string]any)
	access, _ := got["accessToken"].(string)
	ends, err := time.Parse(time.RFC3339, fmt.Sprint(got["accessTokenExpiresAt"]))
	if !provider.IsLive(access) || got["status"] != "active" || err != nil || person["groups"] == nil {
		t.Errorf("the claim is %v", person)
	}
	if at, _ := claims["exp"].(float64); int64(at) > ends.Unix() {
		t.Errorf("the token is valid until %v, and its credential until %s", claims["exp"], ends)
	}
	for what, claims := range map[string]map[string]any{
		"of a deployment without integrations": acme.dataToken(t, acme.ada, other),
		"of a program":                         acme.dataToken(t, acme.admin, named),
	} {
		if text, _ := json.Marshal(claims); strings.Contains(string(text), "userCredentials") {
			t.Errorf("the token %s has %s", what, text)
		}
	}
	acme.call(t, acme.ada, "DELETE", userTokensPath+id, nil).Is(200)
	if text, _ := json.Marshal(acme.dataToken(t, acme.ada, named)); strings.Contains(string(text), "userCredentials") {
		t.Errorf("after the deletion: %s", text)
	}
}

// deployment creates a deployment that names an integration, unless it is empty, and returns its number.
func (a *account) deployment(t *testing.T, name, integration string) (id string) {
	t.Helper()
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name}, Spec: v1alpha1.DeploymentSpec{
		ReleaseChannel: channel, Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
	}}
	if integration != "" {
		d.Spec.OAuthIntegrations = []v1alpha1.LocalReference{{Name: integration}}
	}
	if err := k8s.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(context.Background(), d) })
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if id = d.Labels[v1alpha1.LabelID]; id == "" {
			return errors.New("the deployment has no number")
		}
		if got := a.call(t, a.admin, "POST", "/api/v1/deployments/"+id+"/token", nil); got.Status != 200 {
			return fmt.Errorf("%d %s", got.Status, got.Body)
		}
		return nil
	})
	return id
}

// dataToken returns the claims of a new token for the data of a deployment.
func (a *account) dataToken(t *testing.T, token, deployment string) jwt.MapClaims {
	t.Helper()
	text, _ := a.call(t, token, "POST", "/api/v1/deployments/"+deployment+"/token", nil).Is(200).At("cubeApiToken").(string)
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(text, claims); err != nil {
		t.Fatal(err)
	}
	return claims
}
