package serving

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress is the address of who sent the request. The peer is believed about whom it
// forwards for when it is a trusted proxy, and so on from right to left through
// X-Forwarded-For: the first address that is not trusted is the client, for what stands to
// the left of it is only what the client said. An entry that is no address ends the walk.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	client, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	entries := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, entry := range slices.Backward(entries) {
		if !contain(trusted, client) {
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

// IsTrusted tells whether the peer of a request, its RemoteAddr, is a trusted proxy.
func IsTrusted(peer string, trusted []netip.Prefix) bool {
	address, ok := parseAddress(peer)
	return ok && contain(trusted, address)
}

func contain(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(address) })
}

// parseAddress reads an address with or without a port.
func parseAddress(s string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return address.Unmap().WithZone(""), err == nil
}
