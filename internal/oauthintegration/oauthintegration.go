// Package oauthintegration has the rules of OAuth integrations: their names, redirect URIs and endpoints.
package oauthintegration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/tenant"
)

const (
	// MaxPerAccount is the number of integrations of an account that are in effect: the oldest.
	MaxPerAccount = 64
	// MaxConfigBytes is the maximum size of the further settings of an integration, as JSON.
	MaxConfigBytes = 8 << 10
)

// CallbackPath is the path of redirect URIs on the hosts of an account. Integrations may have one segment more, so that a
// response of one provider is not taken for that of another (RFC 9700, section 4.4.2.2).
const CallbackPath = "/auth/integrations/callback"

// Items returns the integrations of a list.
func Items(list *v1alpha1.OAuthIntegrationList) []*v1alpha1.OAuthIntegration {
	all := make([]*v1alpha1.OAuthIntegration, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all
}

// Name returns the name of an integration in user interfaces.
func Name(i *v1alpha1.OAuthIntegration) string { return cmp.Or(i.Spec.DisplayName, i.Name) }

// RedirectURL returns the redirect URI of an integration.
func RedirectURL(a *v1alpha1.Account, i *v1alpha1.OAuthIntegration) string {
	return cmp.Or(i.Spec.RedirectURL, tenant.URL(a)+CallbackPath)
}

// RedirectURLs returns the redirect URIs that integrations of an account may have, without a further segment.
func RedirectURLs(a *v1alpha1.Account) []string {
	all := []string{"https://" + string(a.Spec.Host) + CallbackPath}
	for _, domain := range a.Spec.CustomDomains {
		all = append(all, "https://"+string(domain)+CallbackPath)
	}
	return all
}

// Check returns an error for what the schema cannot check. It names the field.
func Check(a *v1alpha1.Account, i *v1alpha1.OAuthIntegration) error {
	redirect, allowed := RedirectURL(a, i), RedirectURLs(a)
	isOwn := func(base string) bool { return redirect == base || strings.HasPrefix(redirect, base+"/") }
	if !slices.ContainsFunc(allowed, isOwn) {
		return fmt.Errorf("redirectURL: %q is not that of a host of the account; allowed: %s, or one segment below", redirect, strings.Join(allowed, ", "))
	}
	for _, e := range []struct {
		field string
		value v1alpha1.HTTPSEndpoint
	}{{"authorizationURL", i.Spec.AuthorizationURL}, {"tokenURL", i.Spec.TokenURL}, {"revocationURL", i.Spec.RevocationURL}} {
		if err := checkEndpoint(e.value); e.value != "" && err != nil {
			return fmt.Errorf("%s: %w", e.field, err)
		}
	}
	if size, err := json.Marshal(i.Spec.Config); err != nil || len(size) > MaxConfigBytes {
		return fmt.Errorf("config: has %d bytes as JSON; allowed: at most %d", len(size), MaxConfigBytes)
	}
	return nil
}

// checkEndpoint returns an error for a URL that the schema accepts and that is not the endpoint of a provider.
func checkEndpoint(endpoint v1alpha1.HTTPSEndpoint) error {
	u, err := url.Parse(string(endpoint))
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%q is not a valid https:// URL", endpoint)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast()) {
		return fmt.Errorf("the address %s is not that of a provider; allowed: a host name, or another address", ip)
	}
	return nil
}

// HostOf returns the host of an endpoint with its port, in lower case; empty for an invalid URL.
func HostOf(endpoint v1alpha1.HTTPSEndpoint) string {
	u, err := url.Parse(string(endpoint))
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// InEffect returns the integrations that are in effect: the oldest, up to the limit.
func InEffect(all []*v1alpha1.OAuthIntegration) []*v1alpha1.OAuthIntegration {
	sorted := slices.SortedFunc(slices.Values(all), func(x, y *v1alpha1.OAuthIntegration) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), strings.Compare(x.Name, y.Name))
	})
	return sorted[:min(len(sorted), MaxPerAccount)]
}

// Client returns the configuration of Quoin as a client of the provider.
func Client(a *v1alpha1.Account, i *v1alpha1.OAuthIntegration, secret string) *oauth2.Config {
	style := oauth2.AuthStyleInHeader
	if i.Spec.ClientAuthentication == v1alpha1.OAuthClientPost {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: i.Spec.ClientID, ClientSecret: secret, RedirectURL: RedirectURL(a, i), Scopes: i.Spec.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: string(i.Spec.AuthorizationURL), TokenURL: string(i.Spec.TokenURL), AuthStyle: style},
	}
}
