package signin

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// scopeOffline asks for a refresh token.
const scopeOffline = "offline_access"

const (
	codeGrant    = "authorization_code"
	refreshGrant = "refresh_token"
	clientGrant  = "client_credentials"
	deviceGrant  = "urn:ietf:params:oauth:grant-type:device_code"
)

// secretMethods are the methods by which programs with an API key authenticate (RFC 6749, section 2.3.1).
var secretMethods = []string{"client_secret_basic", "client_secret_post"}

// grantTypes returns the grant types that the token endpoint accepts.
func (s *Server) grantTypes() (all []string) {
	if s.Store != nil {
		all = append(all, codeGrant, refreshGrant, deviceGrant)
	}
	if s.Programs != nil {
		all = append(all, clientGrant)
	}
	return all
}

// serverMetadata serves the metadata of the authorization server (RFC 8414).
func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request, in *request) {
	document := map[string]any{
		"issuer":                                in.url,
		"token_endpoint":                        in.url + tokenPath,
		"scopes_supported":                      []string{oauth.ScopeAll},
		"response_types_supported":              []string{},
		"grant_types_supported":                 s.grantTypes(),
		"token_endpoint_auth_methods_supported": secretMethods,
		"service_documentation":                 in.url + "/docs",
	}
	if s.Store != nil { // people sign in
		maps.Copy(document, map[string]any{
			"authorization_endpoint":                         in.url + authorizePath,
			"revocation_endpoint":                            in.url + revokePath,
			"device_authorization_endpoint":                  in.url + deviceCodePath,
			"scopes_supported":                               []string{oauth.ScopeAll, oauth.ScopeMCP},
			"response_types_supported":                       []string{"code"},
			"response_modes_supported":                       []string{"query"},
			"token_endpoint_auth_methods_supported":          append([]string{"none"}, secretMethods...),
			"revocation_endpoint_auth_methods_supported":     []string{"none"},
			"code_challenge_methods_supported":               []string{"S256"},
			"authorization_response_iss_parameter_supported": true,
		})
	}
	writeMetadata(w, document)
}

// resourceMetadata serves the metadata of the REST API as a protected resource (RFC 9728).
func (s *Server) resourceMetadata(w http.ResponseWriter, _ *http.Request, in *request) {
	writeMetadata(w, map[string]any{
		"resource":                 in.url,
		"resource_name":            in.name(),
		"authorization_servers":    []string{in.url},
		"scopes_supported":         []string{oauth.ScopeAll},
		"bearer_methods_supported": []string{"header"},
		"resource_documentation":   in.url + "/docs",
	})
}

// mcpMetadata serves the metadata of the MCP endpoint as a protected resource.
func (s *Server) mcpMetadata(w http.ResponseWriter, _ *http.Request, in *request) {
	writeMetadata(w, map[string]any{
		"resource":                 in.url + mcpPath,
		"resource_name":            in.name(),
		"authorization_servers":    []string{in.url},
		"scopes_supported":         []string{oauth.ScopeMCP},
		"bearer_methods_supported": []string{"header"},
		"resource_documentation":   in.url + "/docs",
	})
}

// Challenge returns the parameters of the header WWW-Authenticate that name the metadata of the REST API or of the MCP endpoint, by
// the path of the request (RFC 9728, section 5.1): clients find the authorization server with it. It returns nothing if people
// cannot sign in to the account.
func (s *Server) Challenge(account *v1alpha1.Account, path string) string {
	switch metadata := tenant.URL(account) + resourceMetadataPath; {
	case s.Store == nil || len(issuers(account)) == 0:
		return ""
	case path == mcpPath:
		return `, resource_metadata="` + metadata + mcpPath + `", scope="` + oauth.ScopeMCP + `"`
	default:
		return `, resource_metadata="` + metadata + `"`
	}
}

func writeMetadata(w http.ResponseWriter, document map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_ = json.NewEncoder(w).Encode(document) // fails only if the client has disconnected
}

// name returns the name of the account on pages.
func (in *request) name() string {
	if in.account.Spec.DisplayName != "" {
		return in.account.Spec.DisplayName
	}
	return in.account.Name
}
