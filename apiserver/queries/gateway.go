package queries

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// Gateway is where quoin gateway can be reached.
type Gateway struct {
	// Address is its host and port, to which all requests go: the host of the URL selects the deployment.
	Address string
	// CAFile has the certificate authorities of its certificate, in PEM; those of the system if empty. It is read for each
	// connection.
	CAFile string
}

// Client returns a client that connects to the gateway for every host, over TLS with the name of that host; nil without an address.
// Requests belong to the trace that causes them.
func (g Gateway) Client(tracer *tracing.Tracer) *http.Client {
	if g.Address == "" {
		return nil
	}
	return query.NewClient(tracer.Transport("gateway", &http.Transport{
		DialTLSContext: g.dial, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}))
}

// dialTimeout limits the time until a connection is encrypted.
const dialTimeout = 10 * time.Second

func (g Gateway) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if config.RootCAs, err = g.roots(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, g.Address)
}

// roots returns the certificate authorities; nil for those of the system.
func (g Gateway) roots() (*x509.CertPool, error) {
	if g.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(g.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read --gateway-ca-file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--gateway-ca-file: %s has no certificate", g.CAFile)
	}
	return roots, nil
}
