// Package soak_test runs Quoin on a local cluster with simulated nodes for some minutes, with writes of clients, requests to
// data APIs and one fault after the other (make soak):
//
//	QUOIN_SOAK=10m go test ./test/bench/soak
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
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// The account of the samples, and its deployment.
const (
	account     = "demo"
	deployment  = "analytics"
	controllers = 3
)

// world is a cluster of localcluster up. Its controller and its REST and SCIM server are replaced by processes of the test:
// three controllers, and a server with PostgreSQL.
type world struct {
	*testing.T
	dir      string
	env      map[string]string
	kube     client.WithWatch
	http     *http.Client
	database *postgrestest.Server
	// processes are the processes of Quoin.
	processes []*process
	// scraper is the token of a ServiceAccount that may read metrics.
	scraper string
	// dataIP is the address of the server that responds for all pods.
	dataIP string
}

func repository(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", ".."}, elements...)...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWorld starts the cluster and the processes.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: folder(t), env: map[string]string{}}
	t.Cleanup(func() { w.localcluster("down") })
	w.localcluster("up", "--auto-ports", "--nodes", "simulated")
	text, err := os.ReadFile(filepath.Join(w.dir, "env"))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		w.env[name] = strings.Trim(value, "'")
	}
	w.connect()
	w.database = postgrestest.StartServer(t)
	database := "--database-url=" + w.database.Database(t)
	for i := range controllers {
		w.takeOver("quoin-controller", fmt.Sprintf("controller-%d", i+1))
	}
	w.takeOver("quoin-apiserver", "apiserver", database)
	w.takeOver("quoin-gateway", "gateway")
	for _, name := range []string{"quoin-controller", "quoin-apiserver", "quoin-gateway"} {
		must(t, syscall.Kill(w.pid(name), syscall.SIGTERM))
	}
	w.start()
	return w
}

// folder returns a folder, which is removed unless the test fails: then it has the logs.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "quoin-soak-")
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Println("the logs of this run are in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

func (w *world) localcluster(args ...string) {
	w.Helper()
	cmd := exec.Command(repository("bin", "localcluster"), append(args, "--dir", w.dir)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Errorf("localcluster %s: %v\n%s", args[0], err, out)
		w.FailNow()
	}
}

// connect creates the clients.
func (w *world) connect() {
	w.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.env["KUBECONFIG"])
	must(w, err)
	config.QPS = -1
	scheme := runtime.NewScheme()
	must(w, clientgoscheme.AddToScheme(scheme))
	must(w, v1alpha1.AddToScheme(scheme))
	w.kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	must(w, err)
	authority, err := os.ReadFile(w.env["QUOIN_CA_FILE"])
	must(w, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	parsed, err := url.Parse(w.env["QUOIN_URL"])
	must(w, err)
	w.http = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, "127.0.0.1:"+parsed.Port())
		},
	}}
	w.kubectl("create", "clusterrolebinding", "soak", "--clusterrole=quoin-metrics-reader", "--serviceaccount=default:default")
	w.scraper = strings.TrimSpace(w.kubectl("create", "token", "default", "--duration=2h"))
}

func (w *world) kubectl(args ...string) string {
	w.Helper()
	cmd := exec.Command(filepath.Join(w.env["QUOIN_BIN"], "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.env["KUBECONFIG"], "KUBECACHEDIR="+w.env["KUBECACHEDIR"])
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// pid returns the process id of a daemon of localcluster.
func (w *world) pid(name string) int {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "pids", name+".json"))
	must(w, err)
	var record struct{ PID int }
	must(w, json.Unmarshal(text, &record))
	return record.PID
}

// takeOver defines a process with the arguments of a daemon of localcluster, but with its own addresses of metrics and health.
func (w *world) takeOver(daemon, name string, extra ...string) {
	w.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.pid(daemon)))
	must(w, err)
	args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	metrics, err := freeport.Address()
	must(w, err)
	args = append(args, "--metrics-bind-address="+metrics, "--health-probe-bind-address=0")
	w.processes = append(w.processes, &process{name: name, metrics: metrics, log: filepath.Join(w.dir, name+".log"), args: append(args, extra...)})
}

// start starts the processes and waits until all serve metrics. Until then the daemons that they replace may use their ports.
func (w *world) start() {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	w.Cleanup(func() {
		stop()
		running.Wait()
	})
	for _, p := range w.processes {
		running.Go(func() { p.run(ctx) })
	}
	for _, p := range w.processes {
		w.eventually(2*time.Minute, p.name+" serves metrics", func() error {
			_, err := w.scrape(p)
			return err
		})
	}
	w.eventually(time.Minute, "a leader", func() error {
		_, err := w.leader()
		return err
	})
	w.eventually(convergence, "the controllers reconcile", func() error { return w.reconciled("before the faults") })
	for _, p := range w.processes {
		p.reset()
	}
}

// eventually waits until check succeeds.
func (w *world) eventually(timeout time.Duration, what string, check func() error) {
	w.Helper()
	var err error
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	w.Errorf("%s: after %s: %v", what, timeout, err)
}

// call sends a request to the REST and SCIM server. The status is 0 without a response.
func (w *world) call(method, path, token, mediaType string, body any) (status int, response []byte) {
	var reader io.Reader
	if body != nil {
		text, _ := json.Marshal(body) // a map of strings
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, w.env["QUOIN_URL"]+path, reader)
	if err != nil {
		return 0, []byte(err.Error())
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", mediaType)
	answer, err := w.http.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer answer.Body.Close()
	response, err = io.ReadAll(answer.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return answer.StatusCode, response
}
