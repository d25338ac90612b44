package plugin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/plugin/bundle/bundletest"
)

// An archive has the logs of Quoin even if there are more logs of accounts than the limit, and names the limit.
func TestBundleLimitsLogs(t *testing.T) {
	const pod = `{"metadata":{"name":%q,"namespace":%q},"status":{"containerStatuses":[%s]}}`
	var containers []string
	for i := range maxLogs + 1 {
		containers = append(containers, fmt.Sprintf(`{"name":"c%d"}`, i))
	}
	url := kubernetes(t, map[string]string{
		"/version":                                         `{"gitVersion":"v1.36.0"}`,
		"/api/v1/namespaces/demo/pods":                     `{"items":[` + fmt.Sprintf(pod, "many", "demo", strings.Join(containers, ",")) + `]}`,
		"/api/v1/namespaces/demo/pods/many/log":            "a line\n",
		"/api/v1/namespaces/quoin-system/pods":             `{"items":[` + fmt.Sprintf(pod, "gateway", "quoin-system", `{"name":"quoin"}`) + `]}`,
		"/api/v1/namespaces/quoin-system/pods/gateway/log": "the log of Quoin\n",
	})
	code, stdout, stderr := runPlugin(t, "bundle", "-n", "demo", "-f", "-", "-s", url)
	if code != exitDone {
		t.Fatalf("%d, %q", code, stderr)
	}
	files, err := bundletest.Files(strings.NewReader(stdout))
	if err != nil {
		t.Fatal(err)
	}
	const root = "quoin-bundle-19700101T000000Z/"
	if text := files[root+"namespaces/quoin-system/logs/gateway/quoin.log"]; text != "the log of Quoin\n" {
		t.Errorf("the log of Quoin is %q", text)
	}
	if text := files[root+"problems.txt"]; !strings.Contains(text, "logs: only the first 200\n") {
		t.Errorf("problems.txt does not name the limit:\n%s", text)
	}
}

// An archive hides the values of all Secrets of a namespace, also of those that the API server returns in a further page.
func TestBundleHidesAllSecrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			_, _ = io.WriteString(w, `{"gitVersion":"v1.36.0"}`)
		case r.URL.Path == "/api/v1/namespaces/demo/secrets" && r.URL.Query().Get("continue") == "":
			_, _ = io.WriteString(w, `{"metadata":{"continue":"next"},"items":[{"data":{"key":"Zmlyc3QtdmFsdWU="}}]}`)
		case r.URL.Path == "/api/v1/namespaces/demo/secrets":
			_, _ = io.WriteString(w, `{"items":[{"data":{"key":"c2Vjb25kLXZhbHVl"}}]}`)
		case r.URL.Path == "/api/v1/namespaces/demo/events":
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"e"},"message":"it rejects first-value and second-value"}]}`)
		default:
			_, _ = io.WriteString(w, `{"items":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := runPlugin(t, "bundle", "-n", "demo", "-f", "-", "-s", server.URL)
	if code != exitDone {
		t.Fatalf("%d, %q", code, stderr)
	}
	files, err := bundletest.Files(strings.NewReader(stdout))
	if err != nil {
		t.Fatal(err)
	}
	const want = "it rejects [HIDDEN] and [HIDDEN]"
	if events := files["quoin-bundle-19700101T000000Z/namespaces/demo/events.yaml"]; !strings.Contains(events, want) {
		t.Errorf("the events do not have %q:\n%s", want, events)
	}
}

// An archive has each file once: of the namespace of Quoin, which is always in it, and of one that two accounts name.
func TestBundleHasEachFileOnce(t *testing.T) {
	const pods = `{"items":[{"metadata":{"name":"one"}}]}`
	url := kubernetes(t, map[string]string{
		"/version": `{"gitVersion":"v1.36.0"}`,
		"/apis/platform.quoin.dev/v1alpha1/accounts": `{"items":[{"metadata":{"name":"a"},"spec":{"namespace":"demo"}},{"metadata":{"name":"b"},"spec":{"namespace":"demo"}}]}`,
		"/api/v1/namespaces/demo/pods":               pods,
		"/api/v1/namespaces/quoin-system/pods":       pods,
	})
	for _, selected := range []string{"-nquoin-system", "-A"} {
		code, stdout, stderr := runPlugin(t, "bundle", selected, "-f", "-", "-s", url)
		if code != exitDone {
			t.Fatalf("%s: %d, %q", selected, code, stderr)
		}
		files, err := bundletest.Files(strings.NewReader(stdout))
		if err != nil {
			t.Errorf("%s: %v", selected, err)
			continue
		}
		if _, found := files["quoin-bundle-19700101T000000Z/namespaces/quoin-system/pods.yaml"]; !found {
			t.Errorf("%s: the pods of Quoin are missing", selected)
		}
	}
}

// terminal is a standard input in which the user presses Ctrl-C instead of a text: a read does not end.
type terminal struct {
	interrupt context.CancelFunc
	closed    <-chan struct{}
}

func (t terminal) Read([]byte) (int, error) {
	t.interrupt()
	<-t.closed
	return 0, context.Canceled
}

// Ctrl-C ends curl while it reads the body from a terminal.
func TestCurlIsInterruptedWhileItReads(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	closed := make(chan struct{})
	defer close(closed)
	var stdout, stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"curl", "/api/v1/deployments", "-d", "@-", "-s", "https://127.0.0.1:1"}, Options{
			Version: "v1.0.0", Stdin: terminal{interrupt, closed}, Stdout: &stdout, Stderr: &stderr,
		})
	}()
	select {
	case code := <-ended:
		if code != exitFailed || stdout.String() != "" || stderr.String() != "error: interrupted\n" {
			t.Errorf("%d, %q, %q", code, &stdout, &stderr)
		}
	case <-time.After(time.Minute):
		t.Fatal("curl still reads")
	}
}

// forwarder is a kubectl that forwards a port until it is killed.
const forwarder = `#!/bin/sh
cut -d' ' -f5 /proc/self/stat > "$FOLDER/group"
echo "Forwarding from 127.0.0.1:15432 -> 15432"
while :; do sleep 0.05; done
`

// interrupted is a psql that interrupts the plugin, as a terminal does with Ctrl-C, and continues when the plugin has noticed.
const interrupted = `#!/bin/sh
kill -INT $PPID
while [ ! -e "$FOLDER/interrupted" ]; do sleep 0.05; done
[ "$(cut -d' ' -f5 /proc/self/stat)" != "$(cat "$FOLDER/group")" ] || echo "kubectl is in the process group of psql"
echo "the next query"
`

// psqlServer returns the address of a Kubernetes API server with a deployment, and a folder with kubectl and a psql, in which
// the plugin finds them.
func psqlServer(t *testing.T, psql string) (url, folder string) {
	t.Helper()
	const namespace = "/apis/platform.quoin.dev/v1alpha1/namespaces/demo"
	url = kubernetes(t, map[string]string{
		namespace + "/deployments/sales": `{"metadata":{"name":"sales","namespace":"demo"}}`,
		namespace + "/environments/sales-production": `{"metadata":{"name":"sales-production","namespace":"demo"},"spec":{"type":"production","deploymentRef":{"name":"sales"}},` +
			`"status":{"credentialsSecret":"sales-credentials","apiCredentials":{"rest":{"url":"https://x"},"sql":{"host":"x","port":5432}}}}`,
		"/api/v1/namespaces/demo/secrets/sales-credentials": `{"metadata":{"name":"sales-credentials","namespace":"demo"},"data":{"sqlPassword":"c2VjcmV0"}}`,
	})
	folder = t.TempDir()
	for name, script := range map[string]string{"kubectl": forwarder, "psql": psql} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", filepath.Join(folder, "none"))
	t.Setenv("HOME", folder)
	t.Setenv("FOLDER", folder)
	return url, folder
}

// Ctrl-C ends a query of psql, neither psql nor the forwarded port: a terminal sends it to the process group of the plugin.
func TestPsqlContinuesAfterCtrlC(t *testing.T) {
	url, folder := psqlServer(t, interrupted)
	// As main does.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	release := context.AfterFunc(ctx, func() { _ = os.WriteFile(filepath.Join(folder, "interrupted"), nil, 0o600) })
	defer release()
	var stdout, stderr bytes.Buffer
	code := Run(ctx, []string{"psql", "sales", "-n", "demo", "--exec", "-s", url}, Options{
		Version: "v1.0.0", Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Now: func() time.Time { return time.Unix(0, 0) },
	})
	if code != exitDone || stdout.String() != "the next query\n" || stderr.String() != "" {
		t.Errorf("%d, %q, %q", code, &stdout, &stderr)
	}
	if ctx.Err() == nil {
		t.Error("the plugin was not interrupted")
	}
}

// Ctrl-\ ends psql, and the forwarded port too: kubectl is not in the process group to which a terminal sends it.
func TestPsqlEndsWithItsPort(t *testing.T) {
	url, _ := psqlServer(t, "#!/bin/sh\nkill -QUIT $PPID\nexec sleep 600\n")
	code, stdout, stderr := runPlugin(t, "psql", "sales", "-n", "demo", "--exec", "-s", url)
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "psql: signal: killed") {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}

// The event of a pod is found in a namespace whose events are more than one page: pages are in the order of names.
func TestWhyReadsAllWarnings(t *testing.T) {
	const (
		group = "/apis/platform.quoin.dev/v1alpha1/namespaces/demo"
		event = `{"metadata":{"name":"e"},"type":"Warning","reason":"FailedScheduling","lastTimestamp":"2026-01-01T00:00:00Z","involvedObject":`
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := r.URL.Query()
		answer := `{"items":[]}`
		switch {
		case r.URL.Path == group+"/deployments/sales":
			answer = `{"metadata":{"name":"sales","namespace":"demo"},"spec":{"releaseChannel":"stable"}}`
		case r.URL.Path == group+"/environments":
			answer = `{"items":[{"metadata":{"name":"sales-production","namespace":"demo"},"spec":{"type":"production","deploymentRef":{"name":"sales"}}}]}`
		case r.URL.Path == "/api/v1/namespaces/demo/pods":
			answer = `{"items":[{"metadata":{"name":"sales-production-api-1","namespace":"demo","labels":{"platform.quoin.dev/environment":"sales-production"}},` +
				`"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available"}]}}]}`
		case r.URL.Path != "/api/v1/namespaces/demo/events":
		case query.Get("fieldSelector") != "type=Warning":
			t.Errorf("events are selected by %q", query.Get("fieldSelector"))
		case query.Get("continue") == "":
			answer = `{"metadata":{"continue":"next"},"items":[` + event + `{"kind":"Pod","name":"another"},"message":"of another pod"}]}`
		default:
			answer = `{"items":[` + event + `{"kind":"Pod","name":"sales-production-api-1"},"message":"no node has the memory"}]}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := runPlugin(t, "why", "sales", "-n", "demo", "-s", server.URL)
	if code != exitNotReady || !strings.Contains(stdout, "Event Pod/sales-production-api-1: FailedScheduling\n") || strings.Contains(stdout, "of another pod") {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}
