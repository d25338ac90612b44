package product

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// Names of the gateway, as in config/rbac.
const (
	gatewayAccount     = "quoin-gateway"
	gatewayDaemon      = "quoin-gateway"
	gatewayKubeconfig  = "gateway.kubeconfig"
	gatewayCertificate = "quoin-gateway-tls" // Secret that the gateway creates
	gatewayCA          = "gateway-ca.crt"
)

// Names of the samples' data API.
const (
	sampleDataDomain  = "data.quoin.localhost"
	sampleDeployment  = "analytics"
	sampleEnvironment = sampleDeployment + "-production"
	// A new pod may be busy with its first queries.
	dataAPITimeout = time.Minute
)

// startGateway restarts the gateway, in case its binary has changed.
func startGateway(ctx context.Context, c *cluster.Cluster) error {
	if _, err := c.Daemons().Stop(ctx, gatewayDaemon, 2*process.StopTimeout); err != nil {
		return err
	}
	health := cluster.Loopback(c.Ports[cluster.PortGatewayHealth])
	return c.StartAll(ctx, []cluster.Component{{
		Daemon: process.Daemon{Name: gatewayDaemon, Path: c.Path("bin", "quoin"), Args: []string{
			"gateway",
			"--kubeconfig=" + c.Path(gatewayKubeconfig),
			"--namespace=" + quoinNamespace,
			"--bind-address=" + cluster.Loopback(c.Ports[cluster.PortGateway]),
			"--sql-bind-address=" + cluster.Loopback(c.Ports[cluster.PortGatewaySQL]),
			"--health-probe-bind-address=" + health,
			"--metrics-bind-address=" + cluster.Loopback(c.Ports[cluster.PortGatewayMetrics]),
			"--shutdown-delay=0s", // there is no load balancer
		}},
		Port:    cluster.PortGateway,
		Timeout: time.Minute,
		Ready:   process.HTTPProbe(http.DefaultClient, "http://"+health+"/readyz"),
	}})
}

// waitForDataAPI creates tokens for the samples' data API over REST, waits
// until the data API accepts them, and sets its variables in <dir>/env.
func waitForDataAPI(ctx context.Context, c *cluster.Cluster, rest *http.Client) error {
	authority, err := secretValue(ctx, c, quoinNamespace, gatewayCertificate, "ca.crt")
	if err != nil {
		return err
	}
	if err := c.WriteFile([]byte(authority), 0o644, gatewayCA); err != nil {
		return err
	}
	url, err := field(ctx, c, "environment.platform.quoin.dev/"+sampleEnvironment, "{.status.apiCredentials.rest.url}")
	if err != nil {
		return err
	}
	environment, err := sampleEnvironmentURL(ctx, c)
	if err != nil {
		return err
	}
	dataToken, err := createToken(ctx, rest, environment+"/tokens")
	if err != nil {
		return err
	}
	metadataToken, err := createToken(ctx, rest, environment+"/tokens-for-meta-sync")
	if err != nil {
		return err
	}
	// Simulated pods serve no requests.
	if c.Nodes == cluster.NodesReal {
		client := tokenClient([]byte(authority), dataToken, c.Ports[cluster.PortGateway])
		ended := make(chan struct{}) // never closed: the error includes the log
		err := process.WaitReady(ctx, gatewayDaemon, c.Daemons().LogPath(gatewayDaemon), ended, dataAPITimeout, process.HTTPProbe(client, url+"/v1/meta"))
		if err != nil {
			return err
		}
	}
	return c.SetEnvironment(
		cluster.Variable{Name: "QUOIN_DATA_URL", Value: url},
		cluster.Variable{Name: "QUOIN_DATA_CA_FILE", Value: c.Path(gatewayCA)},
		cluster.Variable{Name: "QUOIN_DATA_TOKEN", Value: dataToken},
		cluster.Variable{Name: "QUOIN_METADATA_TOKEN", Value: metadataToken},
	)
}

// sampleEnvironmentURL returns the URL of the samples' environment in the REST
// API.
func sampleEnvironmentURL(ctx context.Context, c *cluster.Cluster) (string, error) {
	deployment, err := field(ctx, c, "deployment.platform.quoin.dev/"+sampleDeployment, "{.status.id}")
	if err != nil {
		return "", err
	}
	environment, err := field(ctx, c, "environment.platform.quoin.dev/"+sampleEnvironment, "{.status.id}")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/api/v1/deployments/%s/environments/%s", apiServerURL(c), deployment, environment), nil
}

// field returns a field of an object of the samples.
func field(ctx context.Context, c *cluster.Cluster, object, path string) (string, error) {
	value, err := c.Kubectl(ctx, "", "get", object, "--namespace", sampleNamespace, "-o", "jsonpath="+path)
	if err == nil && value == "" {
		return "", fmt.Errorf("%s has no %s", object, path)
	}
	return value, err
}

// createToken creates a token over REST. Its errors do not contain the token.
func createToken(ctx context.Context, rest *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"security_context":{}}`))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := rest.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return "", err
	}
	if response.StatusCode/100 != 2 {
		return "", fmt.Errorf("POST %s returned %s: %s", url, response.Status, process.LastLines(string(body), 5))
	}
	var answer struct{ Data struct{ Token string } }
	if err := json.Unmarshal(body, &answer); err != nil || answer.Data.Token == "" {
		return "", fmt.Errorf("POST %s returned no token", url)
	}
	return answer.Data.Token, nil
}
