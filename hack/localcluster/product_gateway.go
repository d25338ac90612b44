package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// How the gateway is deployed: config/rbac has these names too.
const (
	gatewayAccount     = "quoin-gateway"
	gatewayDaemon      = "quoin-gateway"
	gatewayKubeconfig  = "gateway.kubeconfig"
	gatewayCertificate = "quoin-gateway-tls" // Secret that the gateway makes
	gatewayCA          = "gateway-ca.crt"
)

// The samples' data API.
const (
	sampleDataDomain  = "data.quoin.localhost"
	sampleDeployment  = "analytics"
	sampleEnvironment = sampleDeployment + "-production"
	// A pod that has just started may be busy with its first queries.
	dataAPIDeadline = time.Minute
)

// startGateway starts the gateway anew, in case its binary has changed.
func (c *cluster) startGateway(ctx context.Context) error {
	if _, err := c.processes().stop(ctx, gatewayDaemon, 2*stopGrace); err != nil {
		return err
	}
	health := loopback(c.Ports[portGatewayHealth])
	return c.startAll(ctx, []component{{
		daemon: daemon{name: gatewayDaemon, path: c.path("bin", "quoin"), args: []string{
			"gateway",
			"--kubeconfig=" + c.path(gatewayKubeconfig),
			"--namespace=" + quoinNamespace,
			"--bind-address=" + loopback(c.Ports[portGateway]),
			"--sql-bind-address=" + loopback(c.Ports[portGatewaySQL]),
			"--health-probe-bind-address=" + health,
			"--metrics-bind-address=" + loopback(c.Ports[portGatewayMetrics]),
			"--shutdown-delay=0s", // nobody has to be told first
		}},
		port:     portGateway,
		deadline: time.Minute,
		ready:    httpProbe(http.DefaultClient, "http://"+health+"/readyz"),
	}})
}

// awaitDataAPI makes tokens for the samples' data API over REST, as its users
// do, waits until it answers them, and writes into <dir>/env what a caller needs.
func (c *cluster) awaitDataAPI(ctx context.Context, rest *http.Client) error {
	authority, err := c.secretValue(ctx, quoinNamespace, gatewayCertificate, "ca.crt")
	if err != nil {
		return err
	}
	if err := c.writeFile([]byte(authority), 0o644, gatewayCA); err != nil {
		return err
	}
	url, err := c.field(ctx, "environment.platform.quoin.dev/"+sampleEnvironment, "{.status.apiCredentials.rest.url}")
	if err != nil {
		return err
	}
	environment, err := c.sampleEnvironmentURL(ctx)
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
	// No simulated pod answers anything.
	if c.Nodes == nodesReal {
		client := tokenClient([]byte(authority), dataToken, c.Ports[portGateway])
		ended := make(chan struct{}) // never: the log says more than that it ended
		err := awaitReady(ctx, gatewayDaemon, c.processes().logPath(gatewayDaemon), ended, dataAPIDeadline, httpProbe(client, url+"/v1/meta"))
		if err != nil {
			return err
		}
	}
	return c.setEnvironment(
		variable{"QUOIN_DATA_URL", url},
		variable{"QUOIN_DATA_CA_FILE", c.path(gatewayCA)},
		variable{"QUOIN_DATA_TOKEN", dataToken},
		variable{"QUOIN_METADATA_TOKEN", metadataToken},
	)
}

// sampleEnvironmentURL is where the REST API has the samples' environment.
func (c *cluster) sampleEnvironmentURL(ctx context.Context) (string, error) {
	deployment, err := c.field(ctx, "deployment.platform.quoin.dev/"+sampleDeployment, "{.status.id}")
	if err != nil {
		return "", err
	}
	environment, err := c.field(ctx, "environment.platform.quoin.dev/"+sampleEnvironment, "{.status.id}")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/api/v1/deployments/%s/environments/%s", c.frontEndURL(), deployment, environment), nil
}

// field is one field of an object of the samples.
func (c *cluster) field(ctx context.Context, object, path string) (string, error) {
	value, err := c.kubectl(ctx, "", "get", object, "--namespace", sampleNamespace, "-o", "jsonpath="+path)
	if err == nil && value == "" {
		return "", fmt.Errorf("%s has no %s", object, path)
	}
	return value, err
}

// createToken creates a token over REST. No error holds one.
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
		return "", fmt.Errorf("POST %s answered %s: %s", url, response.Status, lastLines(string(body), 5))
	}
	var answer struct{ Data struct{ Token string } }
	if err := json.Unmarshal(body, &answer); err != nil || answer.Data.Token == "" {
		return "", fmt.Errorf("POST %s answered without a token", url)
	}
	return answer.Data.Token, nil
}
