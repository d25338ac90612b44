package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dataAPI is two replicas of bin/quoin gateway, with clients.
type dataAPI struct {
	replicas  [2]*controller
	addresses [2]string
	roots     *x509.CertPool
}

// runGateways starts both replicas with their ServiceAccount.
func runGateways(ctx context.Context) *dataAPI {
	GinkgoHelper()
	a := &dataAPI{roots: x509.NewCertPool()}
	kubeconfig := filepath.Join(world.dir, "gateway.kubeconfig")
	token := strings.TrimSpace(kubectl(ctx, "create", "token", "quoin-gateway", "--namespace", quoinNamespace, "--duration=2h"))
	Expect(world.writeKubeconfig(kubeconfig, token)).To(Succeed())
	for i := range a.replicas {
		a.addresses[i] = freeAddress()
		a.replicas[i] = runQuoin(ctx, "gateway", []string{
			"--kubeconfig=" + kubeconfig, "--namespace=" + quoinNamespace, "--bind-address=" + a.addresses[i], "--sql-bind-address=0",
			// On a busy machine the real server needs longer to start than the default timeout.
			"--wait-timeout=2m", "--shutdown-delay=0s",
		}, nil)
		DeferCleanup(a.replicas[i].stop)
	}
	certificate := &corev1.Secret{}
	Expect(world.api.Get(ctx, client.ObjectKey{Namespace: quoinNamespace, Name: "quoin-gateway-tls"}, certificate)).To(Succeed())
	Expect(a.roots.AppendCertsFromPEM(certificate.Data["ca.crt"])).To(BeTrue())
	return a
}

// client returns a client that connects to one replica, whatever the host of the URL.
func (a *dataAPI) client(replica int) *http.Client {
	return &http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: a.roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, a.addresses[replica])
		},
	}}
}

// ask sends one request. The token has no scheme, as documented for the data API.
func (a *dataAPI) ask(ctx context.Context, method, url, token, body string) reply {
	c := a.client(0)
	defer c.CloseIdleConnections()
	return send(ctx, c, method, url, token, body)
}

// send sends a request and reads the response. The status is 0 without a response.
func send(ctx context.Context, c *http.Client, method, url, token, body string) reply {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{text: err.Error()}
	}
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.Do(request)
	if err != nil {
		return reply{text: err.Error()}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{text: err.Error()}
	}
	r := reply{status: response.StatusCode, text: string(data), version: response.Header.Get(versionHeader)}
	_ = json.Unmarshal(data, &r.body) // no fields if the body is not an object
	return r
}

// load repeats a query until the server has the result: it responds with "Continue wait" to slow queries.
func load(ctx context.Context, c *http.Client, url, token, query string) reply {
	for {
		r := send(ctx, c, http.MethodPost, url+"/v1/load", token, `{"query":`+query+`}`)
		if r.body["error"] != "Continue wait" || ctx.Err() != nil {
			return r
		}
	}
}

// rows returns the data of the response to a query.
func rows(r reply) string {
	data, err := json.Marshal(r.body["data"])
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// analysts repeat one query through both gateways, and compare the result with the expected one.
type analysts struct {
	stop context.CancelFunc
	done sync.WaitGroup
	// mayBreak is set while connections to the first gateway may break, because it is about to be killed.
	mayBreak atomic.Bool

	mu       sync.Mutex
	answers  map[string]int // correct responses, by version of the server
	failures []string
}

const (
	analystsAtOnce = 4
	pauseOfAnalyst = 50 * time.Millisecond
)

// query starts analysts, which run until end is called or the journey ends.
func (a *dataAPI) query(ctx context.Context, url, token, query, want string) *analysts {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	work := &analysts{stop: cancel, answers: map[string]int{}}
	for i := range analystsAtOnce {
		replica := i % len(a.replicas)
		c := a.client(replica)
		work.done.Go(func() {
			defer c.CloseIdleConnections()
			for ctx.Err() == nil {
				r := load(ctx, c, url, token, query)
				if ctx.Err() == nil {
					work.note(replica, r, want)
				}
				time.Sleep(pauseOfAnalyst)
			}
		})
	}
	DeferCleanup(func() { work.end() })
	return work
}

func (w *analysts) note(replica int, r reply, want string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.status == http.StatusOK && rows(r) == want:
		w.answers[r.version]++
	case r.status == 0 && replica == 0 && w.mayBreak.Load():
	default:
		w.failures = append(w.failures, fmt.Sprintf("%s: %s", time.Now().Format(time.TimeOnly), r))
	}
}

// soFar returns the number of correct responses.
func (w *analysts) soFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := 0
	for _, n := range w.answers {
		sum += n
	}
	return sum
}

// end stops the analysts and returns their results.
func (w *analysts) end() (answers map[string]int, failures []string) {
	w.stop()
	w.done.Wait()
	return w.answers, w.failures
}
