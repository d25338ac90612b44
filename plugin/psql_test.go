package plugin

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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
