package signin

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/content/oauth"
)

// oauthClient is a registered client. All are public clients: none has a secret.
type oauthClient struct {
	// ID is its client_id, and Name its name on pages.
	ID, Name string
	// Loopback allows redirects to http://127.0.0.1 and http://[::1] with any port and path (RFC 8252, section
	// 7.3).
	Loopback bool
	// Paths are the paths below the account's URL to which redirects are allowed.
	Paths []string
	// Registered allows the redirect URIs of spec.mcp.redirectURIs of the account.
	Registered bool
	// Scope is the scope of the client's tokens.
	Scope string
	// Device allows the device grant.
	Device bool
	// Trusted clients are part of Quoin: people are not asked for consent.
	Trusted bool
}

// clients are the registered clients.
var clients = []oauthClient{
	{ID: "cube-cli", Name: "Command line (cube)", Scope: oauth.ScopeAll, Loopback: true, Device: true},
	{ID: "cube-mcp-client", Name: "AI assistant (MCP)", Scope: oauth.ScopeMCP, Loopback: true, Registered: true},
	{ID: "quoin-web", Name: "Web", Scope: oauth.ScopeAll, Paths: []string{webCallbackPath}, Trusted: true},
}

// clientOf returns the client with an id; nil if there is none.
func clientOf(id string) *oauthClient {
	i := slices.IndexFunc(clients, func(c oauthClient) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &clients[i]
}

// clientName returns the name of a client, also of one that is no longer registered.
func clientName(id string) string {
	if c := clientOf(id); c != nil {
		return c.Name
	}
	return id
}

// maxRedirect is the maximum length of a redirect URI in bytes.
const maxRedirect = 2000

// allows reports whether the client may redirect to a URI, in an account with a URL. URIs are compared as they
// are, except for the port of loopback addresses.
func (c *oauthClient) allows(in *request, redirect string) bool {
	if slices.ContainsFunc(c.Paths, func(path string) bool { return redirect == in.url+path }) {
		return true
	}
	if mcp := in.account.Spec.MCP; c.Registered && mcp != nil && slices.Contains(mcp.RedirectURIs, redirect) {
		return true
	}
	if !c.Loopback || len(redirect) > maxRedirect || strings.ContainsFunc(redirect, isUnsafe) {
		return false
	}
	u, err := url.Parse(redirect)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Fragment != "" || strings.Contains(redirect, "#") || u.Opaque != "" {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	// The text of the address is compared, too: there are other spellings of it.
	return err == nil && (address.String() == "127.0.0.1" || address.String() == "::1") && address.String() == u.Hostname()
}

// isUnsafe reports whether a character has no place in a URI, or one that parsers do not agree on.
func isUnsafe(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`\"<>^`+"`{|}", r) }
