package keycloak_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/keycloak"
)

// TestRealm: a realm is an issuer.
func TestRealm(t *testing.T) {
	s := keycloak.Start(t, keycloak.Realm{Name: "demo", Clients: []keycloak.Client{{ID: "a", Secret: "b", RedirectURIs: []string{"https://example.com/*"}}}})
	if err := s.Await(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	client := s.Client()
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Issuer("demo")+"/.well-known/openid-configuration", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var document struct{ Issuer string }
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil || document.Issuer != s.Issuer("demo") {
		t.Errorf("the issuer is %q, %v", document.Issuer, err)
	}
	if files, err := os.ReadDir(s.CAFolder); err != nil || len(files) != 1 || filepath.Ext(files[0].Name()) != ".pem" {
		t.Errorf("the folder of the certificate has %v, %v", files, err)
	}
}
