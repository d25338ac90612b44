// Package servers runs the REST and SCIM server and the gateway for the journeys, with clients.
package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

// REST is two replicas of bin/quoin apiserver, one of them also an aggregated API server.
type REST struct {
	// Replicas are those that a journey can kill; nil if the client has only their Service.
	Replicas [2]Replica
	// Host is the host of the account.
	Host string
	// Token is the API key of the requests.
	Token string
	// CAFile has the CA of the certificate.
	CAFile string

	addresses [2]string
	roots     *x509.CertPool
	// start starts a replica.
	start func(ctx context.Context, replica int)
}

// Replica is a process of Quoin.
type Replica interface {
	// Kill sends SIGKILL, and waits until the process has ended.
	Kill()
	// Output returns its log.
	Output() string
}

// Aggregated begins the paths of the aggregated API.
const Aggregated = "/apis/api.platform.quoin.dev/v1/accounts/"

// StartREST starts both replicas with their ServiceAccount and additional flags, and registers the first one as an
// aggregated API server. It creates an API key for all of an account, which has the name of its namespace.
func StartREST(ctx context.Context, c *cluster.Cluster, account, host string, flags ...string) *REST {
	GinkgoHelper()
	f := &REST{Host: host, CAFile: filepath.Join(c.Dir, "apiserver-ca.crt")}
	kubeconfig := filepath.Join(c.Dir, "apiserver.kubeconfig")
	token := strings.TrimSpace(c.MustKubectl(ctx, "create", "token", "quoin-apiserver", "--namespace", cluster.Namespace, "--duration=2h"))
	Expect(c.WriteKubeconfig(kubeconfig, token)).To(Succeed())
	f.addresses = [2]string{fmt.Sprintf("127.0.0.1:%d", c.RESTPort()), cluster.FreeAddress()}
	listen := f.addresses
	if c.Nodes == cluster.Real {
		listen[0] = fmt.Sprintf(":%d", c.RESTPort()) // for pods too
	}
	var processes [2]*cluster.Process
	f.start = func(ctx context.Context, replica int) {
		GinkgoHelper()
		processes[replica] = c.Run(ctx, "apiserver", append([]string{
			"--kubeconfig=" + kubeconfig, "--namespace=" + cluster.Namespace, "--bind-address=" + listen[replica], "--certificate-names=" + c.Address(),
			"--shutdown-delay=0s", "--aggregation",
		}, flags...)...)
		f.Replicas[replica] = processes[replica]
	}
	for i := range listen {
		f.start(ctx, i)
	}
	DeferCleanup(func() {
		for _, p := range processes {
			p.Stop()
		}
	})
	f.register(ctx, c)
	f.connect(ctx, c, account)
	c.MustKubectl(ctx, "wait", "apiservice/v1.api.platform.quoin.dev", "--for=condition=Available", "--timeout=60s")
	return f
}

// Restart starts a replica that has ended again, with the same address and flags.
func (f *REST) Restart(ctx context.Context, replica int) {
	GinkgoHelper()
	f.start(ctx, replica)
}

// WithToken returns a client of the same replicas with another API key or access token; empty for none.
func (f *REST) WithToken(token string) *REST {
	other := *f
	other.Token = token
	return &other
}

// connect creates an API key for all of an account, and waits until both replicas accept it.
func (f *REST) connect(ctx context.Context, c *cluster.Cluster, account string) {
	GinkgoHelper()
	c.Apply(ctx, fmt.Sprintf("apiVersion: platform.quoin.dev/v1alpha1\nkind: ApiKey\nmetadata: {name: admin, namespace: %s}\nspec: {displayName: Administrator}\n", account))
	Eventually(ctx, func(g Gomega) {
		certificate, secret := &corev1.Secret{}, &corev1.Secret{}
		g.Expect(c.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: "quoin-apiserver-tls"}, certificate)).To(Succeed())
		g.Expect(c.API.Get(ctx, client.ObjectKey{Namespace: account, Name: "admin-token"}, secret)).To(Succeed())
		f.roots = x509.NewCertPool()
		g.Expect(f.roots.AppendCertsFromPEM(certificate.Data["ca.crt"])).To(BeTrue())
		g.Expect(os.WriteFile(f.CAFile, certificate.Data["ca.crt"], 0o600)).To(Succeed())
		f.Token = string(secret.Data["token"])
		g.Expect(f.Ask(ctx, 0, "GET", "/api/v1/users/me", nil)).To(HaveStatus(200))
		g.Expect(f.Ask(ctx, 1, "GET", "/api/v1/users/me", nil)).To(HaveStatus(200))
	}).Should(Succeed())
}

// register registers the first replica as an aggregated API server, until the end of the journey.
func (f *REST) register(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	manifest := c.MustKubectl(ctx, "kustomize", cluster.Repository("config", "aggregation"))
	Expect(strings.Count(manifest, "    port: 443\n")).To(Equal(1))
	manifest = strings.Replace(manifest, "    port: 443\n", fmt.Sprintf("    port: %d\n", c.RESTPort()), 1)
	c.Apply(ctx, manifest+fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: quoin-apiserver, namespace: %s}\nspec: {type: ExternalName, externalName: localhost}\n", cluster.Namespace))
	DeferCleanup(func(ctx SpecContext) {
		// An unavailable APIService blocks the deletion of namespaces.
		c.MustKubectl(ctx, "delete", "apiservice/v1.api.platform.quoin.dev")
	})
}

// Reply is a response; its status is 0 if there was none.
type Reply struct {
	Status  int
	Body    map[string]any
	Text    string
	Version string // of the data plane that responded
}

// String returns the status and the body.
func (r Reply) String() string { return fmt.Sprintf("%d %s", r.Status, r.Text) }

// HaveStatus matches a Reply by its status.
func HaveStatus(status int) types.GomegaMatcher {
	return WithTransform(func(r Reply) int { return r.Status }, Equal(status))
}

// Addresses returns the addresses of the replicas.
func (f *REST) Addresses() []string { return f.addresses[:] }

// URL returns the URL of a path on the account's host.
func (f *REST) URL(path string) string { return "https://" + f.Host + path }

// Ask sends a request to a replica, with the account's host.
func (f *REST) Ask(ctx context.Context, replica int, method, path string, body any) Reply {
	var reader io.Reader
	contentType := ""
	if body != nil {
		data, err := json.Marshal(body)
		Expect(err).NotTo(HaveOccurred())
		reader, contentType = bytes.NewReader(data), "application/json"
	}
	return f.Send(ctx, replica, method, path, contentType, reader)
}

// Send sends a request with a body of any type to a replica.
func (f *REST) Send(ctx context.Context, replica int, method, path, contentType string, body io.Reader) Reply {
	response, err := f.open(ctx, replica, method, path, contentType, body)
	if err != nil {
		return Reply{Text: err.Error()}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	r := Reply{Status: response.StatusCode, Text: string(data)}
	_ = json.Unmarshal(data, &r.Body) // no fields if the body is not an object
	return r
}

// open sends a request on a connection of its own, which ends with the body of the response.
func (f *REST) open(ctx context.Context, replica int, method, path, contentType string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, f.URL(path), body)
	Expect(err).NotTo(HaveOccurred())
	if f.Token != "" {
		request.Header.Set("Authorization", "Bearer "+f.Token)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, f.addresses[replica])
		},
		DisableKeepAlives: true,
	}
	return (&http.Client{Transport: transport, Timeout: 2 * time.Minute}).Do(request)
}
