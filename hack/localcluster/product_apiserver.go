package main

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
	"strings"
	"time"
)

// How the front end is deployed: config/rbac and config/aggregation have these names too.
const (
	frontEndAccount     = "quoin-apiserver"
	frontEndDaemon      = "quoin-apiserver"
	frontEndKubeconfig  = "apiserver.kubeconfig"
	frontEndCertificate = "quoin-apiserver-tls" // Secret that the front end makes
	frontEndAPIService  = "v1.api.platform.quoin.dev"
)

// The samples' account and the key that opens it.
const (
	sampleHost        = "demo.quoin.localhost"
	sampleNamespace   = "demo"
	sampleKey         = "admin"
	sampleTokenSecret = sampleKey + "-token"
	sampleScimSecret  = "scim-token"
	frontEndCA        = "ca.crt"
	frontEndDeadline  = 30 * time.Second
)

// frontEndURL is where the account of the samples answers.
func (c *cluster) frontEndURL() string {
	return fmt.Sprintf("https://%s:%d", sampleHost, c.Ports[portFrontEnd])
}

// registerFrontEnd puts the front end behind the Kubernetes API, which tells it what is changed with
// kubectl. The front end is no pod here:
// the Service is a name for this machine.
func (c *cluster) registerFrontEnd(ctx context.Context, root string) error {
	text, err := c.kubectl(ctx, "", "kustomize", filepath.Join(root, "config", "aggregation"))
	if err != nil {
		return err
	}
	manifest, err := aggregationManifest(text, c.Ports[portFrontEnd])
	if err != nil {
		return err
	}
	if _, err = c.kubectl(ctx, manifest, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	_, err = c.kubectl(ctx, "", "apply", "--server-side", "-k", filepath.Join(root, "config", "audit"))
	return err
}

// aggregationManifest is config/aggregation with the front end's port on this machine.
func aggregationManifest(text string, port int) (string, error) {
	const documented = "    port: 443\n"
	if strings.Count(text, documented) != 1 {
		return "", errors.New("config/aggregation: no APIService with port 443")
	}
	text = strings.Replace(text, documented, fmt.Sprintf("    port: %d\n", port), 1)
	return text + fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  namespace: %s\nspec:\n  type: ExternalName\n  externalName: localhost\n",
		frontEndAccount, quoinNamespace), nil
}

// startFrontEnd starts the front end anew, in case its binary has changed.
func (c *cluster) startFrontEnd(ctx context.Context) error {
	if _, err := c.processes().stop(ctx, frontEndDaemon, 2*stopGrace); err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("audit"), 0o700); err != nil {
		return err
	}
	health := loopback(c.Ports[portFrontEndHealth])
	return c.startAll(ctx, []component{{
		daemon: daemon{name: frontEndDaemon, path: c.path("bin", "quoin"), args: []string{
			"apiserver",
			"--kubeconfig=" + c.path(frontEndKubeconfig),
			"--namespace=" + quoinNamespace,
			"--bind-address=" + loopback(c.Ports[portFrontEnd]),
			"--health-probe-bind-address=" + health,
			"--metrics-bind-address=" + loopback(c.Ports[portFrontEndMetrics]),
			"--database-url=sqlite://" + c.path("audit", "audit.db"),
			"--shutdown-delay=0s", // nobody has to be told first
		}},
		port:     portFrontEnd,
		deadline: time.Minute,
		ready:    httpProbe(http.DefaultClient, "http://"+health+"/readyz"),
	}})
}

// awaitFrontEnd waits until the samples' account answers to its key, directly and through the
// Kubernetes API, and writes what a caller needs into <dir>/env. It returns a client with the key.
func (c *cluster) awaitFrontEnd(ctx context.Context) (*http.Client, error) {
	authority, err := c.secretValue(ctx, quoinNamespace, frontEndCertificate, "ca.crt")
	if err != nil {
		return nil, c.frontEndFailure(err)
	}
	if err := c.writeFile([]byte(authority), 0o644, frontEndCA); err != nil {
		return nil, err
	}
	token, err := c.secretValue(ctx, sampleNamespace, sampleTokenSecret, "token")
	if err != nil {
		return nil, fmt.Errorf("%w; the end of the controller's log:\n%s", err, tail(c.processes().logPath(controllerDaemon), 20))
	}
	scimToken, err := c.secretValue(ctx, sampleNamespace, sampleScimSecret, "token")
	if err != nil {
		return nil, err
	}
	client := tokenClient([]byte(authority), token, c.Ports[portFrontEnd])
	ended := make(chan struct{}) // never: the log says more than that it ended
	probe := httpProbe(client, c.frontEndURL()+"/api/v1/deployments")
	if err := awaitReady(ctx, frontEndDaemon, c.processes().logPath(frontEndDaemon), ended, frontEndDeadline, probe); err != nil {
		return nil, err
	}
	if _, err := c.kubectl(ctx, "", "wait", "apiservice/"+frontEndAPIService, "--for=condition=Available", "--timeout", frontEndDeadline.String()); err != nil {
		return nil, c.frontEndFailure(err)
	}
	return client, c.setEnvironment(
		variable{"QUOIN_URL", c.frontEndURL()},
		variable{"QUOIN_CA_FILE", c.path(frontEndCA)},
		variable{"QUOIN_API_KEY", token},
		variable{"QUOIN_SCIM_TOKEN", scimToken},
	)
}

func (c *cluster) frontEndFailure(err error) error {
	return fmt.Errorf("%w; the end of the front end's log:\n%s", err, tail(c.processes().logPath(frontEndDaemon), 20))
}

// secretValue waits for a key of a Secret that Quoin makes.
func (c *cluster) secretValue(ctx context.Context, namespace, name, key string) (string, error) {
	deadline := time.Now().Add(frontEndDeadline)
	path := fmt.Sprintf("jsonpath={.data.%s}", strings.ReplaceAll(key, ".", `\.`))
	for {
		encoded, err := c.kubectl(ctx, "", "get", "secret", name, "--namespace", namespace, "-o", path, "--ignore-not-found")
		if err != nil {
			return "", err
		}
		if encoded != "" {
			value, err := base64.StdEncoding.DecodeString(encoded)
			return string(value), err
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("no secret %s/%s with key %s after %s", namespace, name, key, frontEndDeadline)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// tokenClient sends a token with every request, to a port of this machine whatever the host:
// not every resolver knows that *.localhost is here.
func tokenClient(authority []byte, token string, port int) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &http.Client{Transport: &bearer{token: token, next: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, loopback(port))
		},
	}}}
}

// bearer sends a token along.
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
