package oauthintegration

import (
	"strings"
	"testing"

	"golang.org/x/oauth2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func account() *v1alpha1.Account {
	return &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Host: "demo.example.com:8443", CustomDomains: []v1alpha1.Host{"analytics.example.com"}}}
}

func integration(change func(*v1alpha1.OAuthIntegrationSpec)) *v1alpha1.OAuthIntegration {
	i := &v1alpha1.OAuthIntegration{ObjectMeta: metav1.ObjectMeta{Name: "databricks"}, Spec: v1alpha1.OAuthIntegrationSpec{
		Type: "databricks", AuthorizationURL: "https://login.example.com/authorize", TokenURL: "https://login.example.com/token", ClientID: "quoin",
	}}
	if change != nil {
		change(&i.Spec)
	}
	return i
}

func TestCheck(t *testing.T) {
	type spec = v1alpha1.OAuthIntegrationSpec
	for name, c := range map[string]struct {
		change func(*spec)
		err    string
	}{
		"as it is":            {nil, ""},
		"the custom domain":   {func(s *spec) { s.RedirectURL = "https://analytics.example.com/auth/integrations/callback" }, ""},
		"the host":            {func(s *spec) { s.RedirectURL = "https://demo.example.com:8443/auth/integrations/callback/a" }, ""},
		"the port is missing": {func(s *spec) { s.RedirectURL = "https://demo.example.com/auth/integrations/callback" }, "redirectURL:"},
		"a foreign host":      {func(s *spec) { s.RedirectURL = "https://demo.example.com.evil.example/auth/integrations/callback" }, "redirectURL:"},
		"a longer path":       {func(s *spec) { s.RedirectURL = "https://analytics.example.com/auth/integrations/callbacks" }, "redirectURL:"},
		"metadata of a cloud": {func(s *spec) { s.TokenURL = "https://169.254.169.254/latest" }, "tokenURL: the address 169.254.169.254"},
		"any address":         {func(s *spec) { s.RevocationURL = "https://0.0.0.0/revoke" }, "revocationURL: the address 0.0.0.0"},
		"an invalid escape":   {func(s *spec) { s.AuthorizationURL = "https://login.example.com/%zz" }, "authorizationURL:"},
		"large config": {func(s *spec) {
			s.Config = map[string]apiextensionsv1.JSON{"a": {Raw: []byte(`"` + strings.Repeat("a", MaxConfigBytes) + `"`)}}
		}, "config: has"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(account(), integration(c.change))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

func TestClient(t *testing.T) {
	c := Client(account(), integration(nil), "hidden")
	if c.RedirectURL != "https://analytics.example.com/auth/integrations/callback" || c.ClientSecret != "hidden" || c.Endpoint.AuthStyle != oauth2.AuthStyleInHeader {
		t.Errorf("the client is %+v", c)
	}
	post := integration(func(s *v1alpha1.OAuthIntegrationSpec) { s.ClientAuthentication = v1alpha1.OAuthClientPost })
	if c := Client(account(), post, "hidden"); c.Endpoint.AuthStyle != oauth2.AuthStyleInParams {
		t.Errorf("the client is %+v", c)
	}
}

func TestOldestAreInEffect(t *testing.T) {
	var all []*v1alpha1.OAuthIntegration
	for n := range MaxPerAccount + 1 {
		i := integration(nil)
		i.CreationTimestamp = metav1.Unix(int64(1000-n), 0)
		all = append(all, i)
	}
	got := InEffect(all)
	if len(got) != MaxPerAccount || got[0] != all[MaxPerAccount] || got[len(got)-1] != all[1] {
		t.Errorf("%d are in effect, the first is of %s", len(got), got[0].CreationTimestamp)
	}
}
