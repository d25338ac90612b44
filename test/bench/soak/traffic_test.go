package soak_test

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
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

const (
	// readers is the number of clients of data APIs. Each pauses between two requests.
	readers     = 4
	readerPause = 50 * time.Millisecond
	// readerTimeout is how long a request may take; that of many clients.
	readerTimeout = 10 * time.Second
	// reported is the number of failures whose text is kept.
	reported = 20
)

// endpoint is the data API of the production environment of a deployment.
type endpoint struct{ name, url, token string }

// traffic sends requests to data APIs through the gateway, and counts those that fail.
type traffic struct {
	endpoints []endpoint
	http      *http.Client

	mu sync.Mutex
	// excused is set while requests may fail: no pod may be ready.
	excused bool
	period  period
	// failures are the texts of the first failures that are not excused.
	failures []string
	// served counts the answers of each endpoint.
	served map[string]int
}

// period is what happened between two rows of the table.
type period struct {
	times           []time.Duration
	failed, excused int
}

// p99 describes the time that requests took.
func (p period) p99() string {
	return fmt.Sprintf("%.0f ms", measure.Times{Each: p.times}.Milliseconds(0.99))
}

// slowest describes the longest time of a request.
func (p period) slowest() string {
	return fmt.Sprintf("%.0f ms", measure.Times{Each: p.times}.Milliseconds(1))
}

// newTraffic serves data APIs for the pods of all deployments of the samples, and returns clients of them.
func newTraffic(ctx context.Context, w *world, running *sync.WaitGroup) *traffic {
	w.Helper()
	ip := w.serveData()
	running.Go(func() { w.directPods(ctx, ip) })
	authority, err := os.ReadFile(w.env["QUOIN_DATA_CA_FILE"])
	must(w, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	parsed, err := url.Parse(w.env["QUOIN_DATA_URL"])
	must(w, err)
	t := &traffic{served: map[string]int{}, http: &http.Client{Timeout: readerTimeout, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: readers,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, "127.0.0.1:"+parsed.Port())
		},
	}}}
	environments := &v1alpha1.EnvironmentList{}
	must(w, w.kube.List(ctx, environments, client.InNamespace(account)))
	for i := range environments.Items {
		if e := &environments.Items[i]; e.Spec.Type == v1alpha1.EnvironmentProduction && isCurrent(e) && e.Status.APICredentials != nil {
			t.endpoints = append(t.endpoints, endpoint{e.Spec.DeploymentRef.Name, e.Status.APICredentials.REST.URL, w.dataToken(e)})
		}
	}
	if len(t.endpoints) < 2 {
		w.Fatalf("%d deployments have a data API, want 2 or more", len(t.endpoints))
	}
	w.eventually(time.Minute, "data APIs answer", func() error {
		for _, e := range t.endpoints {
			if err := t.ask(ctx, e, 0); err != nil {
				return err
			}
		}
		return w.directed(ip)
	})
	w.dataIP = ip
	return t
}

// serveData responds for the pods of all deployments, and returns its address.
func (w *world) serveData() string {
	w.Helper()
	own, err := dataplane.Listen()
	must(w, err)
	ip, _, err := net.SplitHostPort(own.Addr().String())
	must(w, err)
	must(w, own.Close())
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(engine.PortHTTP)))
	must(w, err) // the port of the data API must be free
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cubejs-api/v1/meta", dataplane.RespondWith(4*dataplane.BytesSmall))
	mux.HandleFunc("POST "+dataplane.PathSmall, dataplane.RespondWith(dataplane.BytesSmall))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	w.Cleanup(func() { _ = server.Close() })
	return ip
}

// directPods gives all pods the address of the server until the context ends. Simulated pods have addresses of no network.
func (w *world) directPods(ctx context.Context, ip string) {
	patch := fmt.Appendf(nil, `{"status":{"podIP":%[1]q,"podIPs":[{"ip":%[1]q}]}}`, ip)
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		pods := &corev1.PodList{}
		if err := w.kube.List(ctx, pods, client.InNamespace(account)); err != nil {
			continue // the API server is paused
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; isElsewhere(pod, ip) {
				_ = w.kube.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)) // or in the next round
			}
		}
	}
}

// isElsewhere reports whether a running pod has another address.
func isElsewhere(pod *corev1.Pod, ip string) bool {
	return pod.DeletionTimestamp == nil && pod.Status.PodIP != "" && pod.Status.PodIP != ip
}

// directed returns an error unless all pods have the address.
func (w *world) directed(ip string) error {
	pods := &corev1.PodList{}
	if err := w.kube.List(w.Context(), pods, client.InNamespace(account)); err != nil {
		return err
	}
	for i := range pods.Items {
		if isElsewhere(&pods.Items[i], ip) {
			return fmt.Errorf("pod %s has the address %s", pods.Items[i].Name, pods.Items[i].Status.PodIP)
		}
	}
	return nil
}

// dataToken creates a token for an environment over REST.
func (w *world) dataToken(e *v1alpha1.Environment) string {
	w.Helper()
	d := &v1alpha1.Deployment{}
	must(w, w.kube.Get(w.Context(), client.ObjectKey{Namespace: account, Name: e.Spec.DeploymentRef.Name}, d))
	path := "/api/v1/deployments/" + d.Status.ID + "/environments/" + e.Status.ID + "/tokens"
	status, text := w.call(http.MethodPost, path, w.env["QUOIN_API_KEY"], "application/json", map[string]any{"security_context": map[string]any{}})
	var created struct{ Data struct{ Token string } }
	if err := json.Unmarshal(text, &created); err != nil || status != http.StatusOK || created.Data.Token == "" {
		w.Fatalf("token for %s: status %d: %s", e.Name, status, text)
	}
	return created.Data.Token
}

// run sends requests to all endpoints in turn until the context ends.
func (t *traffic) run(ctx context.Context, first int) {
	for i := first; ctx.Err() == nil; i++ {
		e := t.endpoints[i%len(t.endpoints)]
		excused, began := t.isExcused(), time.Now()
		if err := t.ask(ctx, e, i/len(t.endpoints)); ctx.Err() == nil {
			t.count(e, time.Since(began), excused, err)
		}
		time.Sleep(readerPause)
	}
}

// ask sends a request: the metadata and queries, in turn.
func (t *traffic) ask(ctx context.Context, e endpoint, i int) error {
	method, path, body := http.MethodGet, "/v1/meta", ""
	if i%2 == 1 {
		method, path, body = http.MethodPost, "/v1/load", dataplane.Query
	}
	request, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", e.token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := t.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.200s", answer.StatusCode, text)
	}
	return err
}

// count counts a request. It is excused if requests might fail when it began, or when it ended.
func (t *traffic) count(e endpoint, took time.Duration, excused bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.period.times = append(t.period.times, took)
	switch {
	case err == nil:
		t.served[e.name]++
	case excused || t.excused:
		t.period.excused++
	default:
		t.period.failed++
		if len(t.failures) < reported {
			t.failures = append(t.failures, fmt.Sprintf("%s, %s after %s: %v", time.Now().Format(time.TimeOnly), e.name, took.Round(time.Millisecond), err))
		}
	}
}

func (t *traffic) isExcused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.excused
}

// excuse sets whether requests may fail.
func (t *traffic) excuse(excused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.excused = excused
}

// answers returns the number of answers by endpoint.
func (t *traffic) answers() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]int, len(t.endpoints))
	for i, e := range t.endpoints {
		all[i] = t.served[e.name]
	}
	return all
}

// answeredSince returns an error unless each endpoint has answered since a count.
func (t *traffic) answeredSince(before []int) error {
	for i, n := range t.answers() {
		if n <= before[i] {
			return fmt.Errorf("the data API of %s does not answer", t.endpoints[i].name)
		}
	}
	return nil
}

// next returns the requests since the last call.
func (t *traffic) next() period {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.period
	t.period = period{}
	return p
}

// failed returns the texts of failures.
func (t *traffic) failed() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.failures)
}
