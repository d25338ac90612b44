package oidctokens_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const (
	discoveryPath = "/oidc/.well-known/openid-configuration"
	keysPath      = "/oidc/jwks"
)

func (a *account) issuer() string { return "https://" + a.host() + "/oidc" }

// TestTokensAreVerifiedByDiscovery: go-oidc needs the URL of the issuer and the audience only.
func TestTokensAreVerifiedByDiscovery(t *testing.T) {
	acme.config(t, map[string]any{"name": "discovered", "audienceType": "aws", "subFormat": "{region}:{component}", "customClaims": map[string]any{"team": "sales"}})
	token := acme.token(t, "discovered")
	ctx := oidc.ClientContext(t.Context(), anyone)
	provider, err := oidc.NewProvider(ctx, acme.issuer())
	if err != nil {
		t.Fatal(err)
	}
	verified, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: "sts.amazonaws.com", SupportedSigningAlgs: []string{"RS256"}}).Verify(ctx, token)
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Team  string                     `json:"team"`
		Quoin map[string]string          `json:"platform.quoin.dev"`
		Times map[string]jwt.NumericDate `json:"-"`
	}
	if err := verified.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	if verified.Subject != "eu:api" || claims.Team != "sales" || claims.Quoin["account"] != "acme" || claims.Quoin["deployment"] != "sales" || claims.Quoin["region"] != "eu" {
		t.Errorf("%+v, %+v", verified, claims)
	}
	if _, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: "another audience"}).Verify(ctx, token); err == nil {
		t.Error("a token for another audience is accepted")
	}
	for name, forged := range map[string]string{
		"another signature": token[:strings.LastIndex(token, ".")+1] + strings.Repeat("A", 342),
		"no signature":      "eyJhbGciOiJub25lIn0" + token[strings.Index(token, "."):strings.LastIndex(token, ".")+1],
	} {
		if _, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: "sts.amazonaws.com"}).Verify(ctx, forged); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	// Each account is an issuer of its own, also after it has the same configuration.
	globex.config(t, map[string]any{"name": "discovered", "audienceType": "aws"})
	globex.token(t, "discovered")
	other, err := oidc.NewProvider(ctx, globex.issuer())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.VerifierContext(ctx, &oidc.Config{ClientID: "sts.amazonaws.com", SkipIssuerCheck: true}).Verify(ctx, token); err == nil {
		t.Error("the keys of another account verify the token")
	}
	// quoin apiserver itself does not accept tokens of deployments.
	acme.call(t, token, "GET", configsPath, nil).Is(401)
}

// TestDocumentsArePublic: caching, methods, and that nothing else is served without authentication.
func TestDocumentsArePublic(t *testing.T) {
	acme.config(t, map[string]any{"name": "public", "audienceType": "aws"})
	acme.token(t, "public")
	for _, path := range []string{discoveryPath, keysPath} {
		first := acme.call(t, "", "GET", path, nil).Is(200)
		tag := first.Header.Get("Etag")
		if first.Header.Get("Content-Type") != "application/json" || first.Header.Get("Cache-Control") != "public, max-age=3600" || tag == "" {
			t.Errorf("%s: %v", path, first.Header)
		}
		for header, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200} {
			got, err := (apiclient.Request{Method: "GET", URL: "https://" + acme.host() + path, Header: []string{"If-None-Match", header}}).Send(t.Context(), anyone)
			if err != nil || got.Status != want || want == 304 && len(got.Body) > 0 {
				t.Errorf("%s, If-None-Match: %s: %+v, %v; want %d", path, header, got, err, want)
			}
		}
		if got := acme.call(t, "", "HEAD", path, nil).Is(200); len(got.Body) > 0 {
			t.Errorf("%s", got.Body)
		}
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			if got := acme.call(t, "", method, path, nil).Is(405); got.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%v", got.Header)
			}
		}
		// A credential, also an invalid one, makes no difference.
		acme.call(t, "invalid", "GET", path, nil).Is(200)
	}
	acme.call(t, "", "GET", discoveryPath, nil).Is(200).Want(map[string]string{
		"issuer": `"` + acme.issuer() + `"`, "jwks_uri": `"` + acme.issuer() + `/jwks"`, "id_token_signing_alg_values_supported": `["RS256"]`,
	})
	acme.call(t, "", "GET", keysPath, nil).Is(200).Want(map[string]string{"keys.length": "1", "keys.0.kty": `"RSA"`, "keys.0.use": `"sig"`, "keys.0.alg": `"RS256"`, "keys.0.d": "null"})
	for _, path := range []string{"/oidc", "/oidc/keys", "/oidc/.well-known", "/.well-known/openid-configuration"} {
		if got := acme.call(t, "", "GET", path, nil); got.Status != 401 && got.Status != 404 {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
}

// TestRequestsAreLimited for each client address.
func TestRequestsAreLimited(t *testing.T) {
	acme.config(t, map[string]any{"name": "limited", "audienceType": "aws"})
	acme.token(t, "limited")
	limited := false
	for range 5000 {
		got := acme.call(t, "", "GET", keysPath, nil)
		if got.Status == 429 {
			limited = got.Header.Get("Retry-After") != ""
			break
		}
	}
	if !limited {
		t.Error("5000 requests are answered")
	}
	acme.call(t, acme.admin, "GET", configsPath, nil).Is(200)
	apiclient.Soon(t, func() error {
		if got := acme.call(t, "", "GET", keysPath, nil); got.Status != 200 {
			return fmt.Errorf("%d", got.Status)
		}
		return nil
	})
}

// TestKubernetesAcceptsTokens: a Kubernetes API server with structured authentication, which trusts the issuer.
func TestKubernetesAcceptsTokens(t *testing.T) {
	acme.config(t, map[string]any{"name": "cluster", "audienceType": "custom", "customAudience": "my-cluster", "subFormat": "{component}:{deployment_id}"})
	acme.config(t, map[string]any{"name": "other", "audienceType": "aws"})
	config := startTrusting(t, acme.issuer(), "my-cluster")
	review := func(token string) (string, error) {
		anonymous := rest.AnonymousClientConfig(config)
		anonymous.BearerToken = token
		c, err := clientset.NewForConfig(anonymous)
		if err != nil {
			return "", err
		}
		got, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return got.Status.UserInfo.Username, nil
	}
	token := acme.token(t, "cluster")
	apiclient.Soon(t, func() error { // the API server fetches the keys in the background
		user, err := review(token)
		if err == nil && !strings.HasPrefix(user, "quoin:api:") {
			err = fmt.Errorf("user %q", user)
		}
		return err
	})
	if user, err := review(acme.token(t, "other")); err == nil {
		t.Errorf("a token for another audience is accepted: %q", user)
	}
}

// startTrusting starts a Kubernetes API server that accepts the tokens of an issuer.
func startTrusting(t *testing.T, issuer, audience string) *rest.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	text := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: %s\n    audiences: [%s]\n    certificateAuthority: |\n      %s\n"+
		"  claimMappings:\n    username: {claim: sub, prefix: 'quoin:'}\n", issuer, audience, strings.ReplaceAll(strings.TrimSpace(authority(t)), "\n", "\n      "))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HTTPS_PROXY", proxy(t))
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().Set("authentication-config", file)
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	return config
}

// proxy starts a proxy that connects to quoin apiserver, whatever the host: the host of the account has no address.
func proxy(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
			return
		}
		upstream, err := (&net.Dialer{}).DialContext(context.WithoutCancel(r.Context()), "tcp", address)
		if err != nil {
			http.Error(w, "no connection", http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = upstream.Close()
			return
		}
		go func() {
			_, _ = io.Copy(upstream, buffered)
			_ = upstream.Close()
		}()
		_, _ = io.Copy(client, upstream)
		_ = client.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}
