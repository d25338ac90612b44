package servers

import (
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
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

// VersionHeader is the response header with the version of the server, of both the sample and the real one.
const VersionHeader = "X-Data-Plane-Version"

// Gateways is two replicas of bin/quoin gateway, with clients.
type Gateways struct {
	Replicas [2]*cluster.Process
	// CAFile has the CA of the certificate.
	CAFile string

	addresses [2]string
	roots     *x509.CertPool
}

// StartGateways starts both replicas with their ServiceAccount.
func StartGateways(ctx context.Context, c *cluster.Cluster) *Gateways {
	GinkgoHelper()
	a := &Gateways{roots: x509.NewCertPool(), CAFile: filepath.Join(c.Dir, "gateway-ca.crt")}
	kubeconfig := filepath.Join(c.Dir, "gateway.kubeconfig")
	token := strings.TrimSpace(c.MustKubectl(ctx, "create", "token", "quoin-gateway", "--namespace", cluster.Namespace, "--duration=2h"))
	Expect(c.WriteKubeconfig(kubeconfig, token)).To(Succeed())
	a.addresses = [2]string{fmt.Sprintf("127.0.0.1:%d", c.GatewayPort()), cluster.FreeAddress()}
	for i := range a.Replicas {
		a.Replicas[i] = c.Run(ctx, "gateway",
			"--kubeconfig="+kubeconfig, "--namespace="+cluster.Namespace, "--bind-address="+a.addresses[i], "--sql-bind-address=0",
			// On a busy machine the real server needs longer to start than the default timeout.
			"--wait-timeout=2m", "--shutdown-delay=0s",
		)
		DeferCleanup(a.Replicas[i].Stop)
	}
	a.trust(ctx, c)
	return a
}

// trust reads the CA of the certificate.
func (a *Gateways) trust(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	certificate := &corev1.Secret{}
	Expect(c.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: "quoin-gateway-tls"}, certificate)).To(Succeed())
	Expect(a.roots.AppendCertsFromPEM(certificate.Data["ca.crt"])).To(BeTrue())
	Expect(os.WriteFile(a.CAFile, certificate.Data["ca.crt"], 0o600)).To(Succeed())
}

// Client returns a client that connects to one replica, whatever the host of the URL.
func (a *Gateways) Client(replica int) *http.Client {
	return &http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: a.roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, a.addresses[replica])
		},
	}}
}

// Ask sends one request. The token has no scheme, as documented for the data API.
func (a *Gateways) Ask(ctx context.Context, method, url, token, body string) Reply {
	c := a.Client(0)
	defer c.CloseIdleConnections()
	return Send(ctx, c, method, url, token, body)
}

// Send sends a request and reads the response. The status is 0 without a response.
func Send(ctx context.Context, c *http.Client, method, url, token, body string) Reply {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return Reply{Text: err.Error()}
	}
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.Do(request)
	if err != nil {
		return Reply{Text: err.Error()}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return Reply{Text: err.Error()}
	}
	r := Reply{Status: response.StatusCode, Text: string(data), Version: response.Header.Get(VersionHeader)}
	_ = json.Unmarshal(data, &r.Body) // no fields if the body is not an object
	return r
}

// Load repeats a query until the server has the result: it responds with "Continue wait" to slow queries.
func Load(ctx context.Context, c *http.Client, url, token, query string) Reply {
	for {
		r := Send(ctx, c, http.MethodPost, url+"/v1/load", token, `{"query":`+query+`}`)
		if r.Body["error"] != "Continue wait" || ctx.Err() != nil {
			return r
		}
	}
}

// Rows returns the data of the response to a query.
func Rows(r Reply) string {
	data, err := json.Marshal(r.Body["data"])
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Analysts repeat one query through both gateways, and compare the result with the expected one.
type Analysts struct {
	stop context.CancelFunc
	done sync.WaitGroup
	// MayBreak is set while connections to the first gateway may break, because it is about to be killed.
	MayBreak atomic.Bool

	mu       sync.Mutex
	answers  map[string]int // correct responses, by version of the server
	failures []string
}

const (
	analystsAtOnce = 4
	pauseOfAnalyst = 50 * time.Millisecond
)

// Query starts analysts, which run until End is called or the journey ends.
func (a *Gateways) Query(ctx context.Context, url, token, query, want string) *Analysts {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	work := &Analysts{stop: cancel, answers: map[string]int{}}
	for i := range analystsAtOnce {
		replica := i % len(a.Replicas)
		c := a.Client(replica)
		work.done.Go(func() {
			defer c.CloseIdleConnections()
			for ctx.Err() == nil {
				r := Load(ctx, c, url, token, query)
				if ctx.Err() == nil {
					work.note(replica, r, want)
				}
				time.Sleep(pauseOfAnalyst)
			}
		})
	}
	DeferCleanup(func() { work.End() })
	return work
}

func (w *Analysts) note(replica int, r Reply, want string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.Status == http.StatusOK && Rows(r) == want:
		w.answers[r.Version]++
	case r.Status == 0 && replica == 0 && w.MayBreak.Load():
	default:
		w.failures = append(w.failures, fmt.Sprintf("%s: %s", time.Now().Format(time.TimeOnly), r))
	}
}

// SoFar returns the number of correct responses.
func (w *Analysts) SoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := 0
	for _, n := range w.answers {
		sum += n
	}
	return sum
}

// End stops the analysts and returns their results.
func (w *Analysts) End() (answers map[string]int, failures []string) {
	w.stop()
	w.done.Wait()
	return w.answers, w.failures
}
