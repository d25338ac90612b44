package serving

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress returns the address of the client. If the peer is a trusted proxy, the entries of
// X-Forwarded-For are followed from right to left: the first address that is not trusted is the
// client's, because the client can choose the entries to its left. A malformed entry ends the
// search.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	client, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	entries := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, entry := range slices.Backward(entries) {
		if !contains(trusted, client) {
			return client
		}
		forwarded, ok := parseAddress(strings.TrimSpace(entry))
		if !ok {
			return client
		}
		client = forwarded
	}
	return client
}

// IsTrusted reports whether the peer of a request, its RemoteAddr, is a trusted proxy.
func IsTrusted(peer string, trusted []netip.Prefix) bool {
	address, ok := parseAddress(peer)
	return ok && contains(trusted, address)
}

func contains(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(address) })
}

// parseAddress parses an address with or without a port.
func parseAddress(s string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return address.Unmap().WithZone(""), err == nil
}
