package product

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// Names of the API server (`quoin apiserver`), as in config/rbac and
// config/aggregation.
const (
	apiServerAccount     = "quoin-apiserver"
	apiServerDaemon      = "quoin-apiserver"
	apiServerKubeconfig  = "apiserver.kubeconfig"
	apiServerCertificate = "quoin-apiserver-tls" // Secret that the API server creates
	apiService           = "v1.api.platform.quoin.dev"
)

// Names of the samples' account and of its Secrets.
const (
	sampleHost        = "demo.quoin.localhost"
	sampleNamespace   = "demo"
	sampleKey         = "admin"
	sampleTokenSecret = sampleKey + "-token"
	sampleScimSecret  = "scim-token"
	apiServerCA       = "ca.crt"
	apiServerTimeout  = 30 * time.Second
)

// apiServerURL returns the URL of the samples' account.
func apiServerURL(c *cluster.Cluster) string {
	return fmt.Sprintf("https://%s:%d", sampleHost, c.Ports[cluster.PortQuoinAPIServer])
}

// apiServerNodeAddress returns the address of the API server for pods, which fetch data models from it.
func apiServerNodeAddress(c *cluster.Cluster) string {
	return net.JoinHostPort(c.Address, strconv.Itoa(c.Ports[cluster.PortQuoinAPIServer]))
}

// apiServerListenAddress returns the address to listen on: this machine, and for pods of a real node also
// the address of the node.
func apiServerListenAddress(c *cluster.Cluster) string {
	if c.Nodes == cluster.NodesReal {
		return fmt.Sprintf(":%d", c.Ports[cluster.PortQuoinAPIServer])
	}
	return cluster.Loopback(c.Ports[cluster.PortQuoinAPIServer])
}

// registerAPIServer registers the API server as an aggregated API server and
// for the audit webhook. It is not a pod here: the Service is an ExternalName
// for this machine.
func registerAPIServer(ctx context.Context, c *cluster.Cluster, root string) error {
	text, err := c.Kubectl(ctx, "", "kustomize", filepath.Join(root, "config", "aggregation"))
	if err != nil {
		return err
	}
	manifest, err := aggregationManifest(text, c.Ports[cluster.PortQuoinAPIServer])
	if err != nil {
		return err
	}
	if _, err = c.Kubectl(ctx, manifest, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "", "apply", "--server-side", "-k", filepath.Join(root, "config", "audit"))
	return err
}

// aggregationManifest returns the manifests of config/aggregation with the API
// server's port on this machine.
func aggregationManifest(text string, port int) (string, error) {
	const documented = "    port: 443\n"
	if strings.Count(text, documented) != 1 {
		return "", errors.New("config/aggregation: no APIService with port 443")
	}
	text = strings.Replace(text, documented, fmt.Sprintf("    port: %d\n", port), 1)
	return text + fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  namespace: %s\nspec:\n  type: ExternalName\n  externalName: localhost\n",
		apiServerAccount, quoinNamespace), nil
}

// startAPIServer restarts the API server, in case its binary has changed.
func startAPIServer(ctx context.Context, c *cluster.Cluster) error {
	if _, err := c.Daemons().Stop(ctx, apiServerDaemon, 2*process.StopTimeout); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Path("audit"), 0o700); err != nil {
		return err
	}
	environment, err := cluster.ReadEnvironment(c.Path("env"))
	if err != nil {
		return err
	}
	health := cluster.Loopback(c.Ports[cluster.PortQuoinAPIServerHealth])
	return c.StartAll(ctx, []cluster.Component{{
		Daemon: process.Daemon{Name: apiServerDaemon, Path: c.Path("bin", "quoin"), Args: []string{
			"apiserver",
			"--kubeconfig=" + c.Path(apiServerKubeconfig),
			"--namespace=" + quoinNamespace,
			"--bind-address=" + apiServerListenAddress(c),
			"--certificate-names=" + c.Address,
			"--health-probe-bind-address=" + health,
			"--metrics-bind-address=" + cluster.Loopback(c.Ports[cluster.PortQuoinAPIServerMetrics]),
			"--database-url=sqlite://" + c.Path("audit", "audit.db"),
			"--gateway-address=" + cluster.Loopback(c.Ports[cluster.PortGateway]),
			"--gateway-ca-file=" + c.Path(gatewayCA),
			"--allow-insecure-git",
			"--dbt-image=" + environment[dbtImageVariable],
			"--shutdown-delay=0s", // there is no load balancer
			"--aggregation",
		}},
		Port:    cluster.PortQuoinAPIServer,
		Timeout: time.Minute,
		Ready:   process.HTTPProbe(http.DefaultClient, "http://"+health+"/readyz"),
	}})
}

// waitForAPIServer waits until the samples' account is available with its key,
// directly and through the aggregated API, and sets its variables in <dir>/env.
// It returns a client with the key.
func waitForAPIServer(ctx context.Context, c *cluster.Cluster) (*http.Client, error) {
	authority, err := secretValue(ctx, c, quoinNamespace, apiServerCertificate, "ca.crt")
	if err != nil {
		return nil, apiServerFailure(c, err)
	}
	if err := c.WriteFile([]byte(authority), 0o644, apiServerCA); err != nil {
		return nil, err
	}
	token, err := secretValue(ctx, c, sampleNamespace, sampleTokenSecret, "token")
	if err != nil {
		return nil, fmt.Errorf("%w; the end of the controller's log:\n%s", err, process.Tail(c.Daemons().LogPath(controllerDaemon), 20))
	}
	scimToken, err := secretValue(ctx, c, sampleNamespace, sampleScimSecret, "token")
	if err != nil {
		return nil, err
	}
	client := tokenClient([]byte(authority), token, c.Ports[cluster.PortQuoinAPIServer])
	ended := make(chan struct{}) // never closed: the error includes the log
	probe := process.HTTPProbe(client, apiServerURL(c)+"/api/v1/deployments")
	if err := process.WaitReady(ctx, apiServerDaemon, c.Daemons().LogPath(apiServerDaemon), ended, apiServerTimeout, probe); err != nil {
		return nil, err
	}
	if _, err := c.Kubectl(ctx, "", "wait", "apiservice/"+apiService, "--for=condition=Available", "--timeout", apiServerTimeout.String()); err != nil {
		return nil, apiServerFailure(c, err)
	}
	return client, c.SetEnvironment(
		cluster.Variable{Name: "QUOIN_URL", Value: apiServerURL(c)},
		cluster.Variable{Name: "QUOIN_CA_FILE", Value: c.Path(apiServerCA)},
		cluster.Variable{Name: "QUOIN_API_KEY", Value: token},
		cluster.Variable{Name: "QUOIN_SCIM_TOKEN", Value: scimToken},
	)
}

func apiServerFailure(c *cluster.Cluster, err error) error {
	return fmt.Errorf("%w; the end of the log of quoin-apiserver:\n%s", err, process.Tail(c.Daemons().LogPath(apiServerDaemon), 20))
}

// secretValue waits for a key of a Secret that Quoin creates.
func secretValue(ctx context.Context, c *cluster.Cluster, namespace, name, key string) (string, error) {
	deadline := time.Now().Add(apiServerTimeout)
	path := fmt.Sprintf("jsonpath={.data.%s}", strings.ReplaceAll(key, ".", `\.`))
	for {
		encoded, err := c.Kubectl(ctx, "", "get", "secret", name, "--namespace", namespace, "-o", path, "--ignore-not-found")
		if err != nil {
			return "", err
		}
		if encoded != "" {
			value, err := base64.StdEncoding.DecodeString(encoded)
			return string(value), err
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("no secret %s/%s with key %s after %s", namespace, name, key, apiServerTimeout)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// tokenClient returns a client that sends a token with every request, to a port
// of this machine for any host: not every resolver resolves *.localhost.
func tokenClient(authority []byte, token string, port int) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &http.Client{Transport: &bearer{token: token, next: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, cluster.Loopback(port))
		},
	}}}
}

// bearer adds a token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(request)
}
