package chart_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestControllerRunsWithItsRights starts the program as the chart does, but on this machine:
// with the arguments of the Deployment and the token of its ServiceAccount.
func TestControllerRunsWithItsRights(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace, "monitoring", "tenant-a")
	c.helm(t, "install", releaseName, chartFolder, "--set", "controller.metrics.readers[0].name=prometheus,controller.metrics.readers[0].namespace=monitoring")
	for _, name := range []string{"prometheus", "somebody"} {
		account := &corev1.ServiceAccount{}
		account.Name, account.Namespace = name, "monitoring"
		if err := c.Create(t.Context(), account); err != nil {
			t.Fatal(err)
		}
	}
	health, metrics := freeAddress(t), freeAddress(t)
	log, stop := c.run(t, "controller", buildQuoin(t), "--health-probe-bind-address="+health, "--metrics-bind-address="+metrics)
	c.eventually(t, "the controller is ready", func(ctx context.Context) bool {
		return status(ctx, "http://"+health+"/readyz", "") == http.StatusOK
	})
	// Its workers start when all its watches are there, which they never are without the rights.
	for _, kind := range []string{"Account", "ReleaseChannel", "Deployment", "Environment", "Branch"} {
		c.eventually(t, "the workers start", func(context.Context) bool {
			return log.has(`"Starting workers"`, `"controllerKind":"`+kind+`"`)
		}, "for", kind)
	}
	account := c.createAccount(t)
	c.eventually(t, "an account is reconciled", func(ctx context.Context) bool {
		if err := c.Get(ctx, client.ObjectKeyFromObject(account), account); err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(account.Object, "status", "conditions")
		return len(conditions) > 0
	})
	c.eventually(t, "the controller leads", func(ctx context.Context) bool {
		lease := &coordinationv1.Lease{}
		err := c.Get(ctx, client.ObjectKey{Namespace: releaseNamespace, Name: "quoin-controller"}, lease)
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	})
	for _, scrape := range []struct {
		who, token string
		want       int
	}{
		{"somebody without a token", "", http.StatusUnauthorized},
		{"an account without the role", c.token(t, "monitoring", "somebody"), http.StatusForbidden},
		{"an account in controller.metrics.readers", c.token(t, "monitoring", "prometheus"), http.StatusOK},
	} {
		if got := status(t.Context(), "https://"+metrics+"/metrics", scrape.token); got != scrape.want {
			t.Errorf("metrics for %s: status %d, want %d", scrape.who, got, scrape.want)
		}
	}
	stop()
	wantAllRights(t, log)
}

// wantAllRights fails for each right that a program lacked.
func wantAllRights(t *testing.T, log *safeLog) {
	t.Helper()
	// What a right is missing for shows up in the log, not in the exit code.
	for line := range strings.Lines(log.String()) {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("a right is missing: %s", line)
		}
	}
	if t.Failed() {
		t.Logf("the program's log:\n%s", log)
	}
}

// run starts the program as a component's Deployment does, with other addresses, and returns
// its log and what ends it.
func (c *cluster) run(t *testing.T, component, binary string, addresses ...string) (*safeLog, func()) {
	t.Helper()
	container := only[appsv1.Deployment](t, render(t).of(component), "Deployment").Spec.Template.Spec.Containers[0]
	// The addresses given last win: two runs of this test may share a machine.
	command := exec.CommandContext(t.Context(), binary, append(container.Args, addresses...)...)
	command.Env = []string{
		"KUBECONFIG=" + c.accountKubeconfig(t, "quoin-"+component), "POD_NAMESPACE=" + releaseNamespace, "QUOIN_IMAGE=" + variable(container, "QUOIN_IMAGE"),
	}
	log := &safeLog{}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return log, func() {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the %s ended with %v", component, err)
		}
	}
}

// safeLog is a log that is read while it is written.
type safeLog struct {
	mutex sync.Mutex
	text  strings.Builder
}

// Write implements io.Writer.
func (l *safeLog) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

// String is the log so far.
func (l *safeLog) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// has tells whether a line has all the words.
func (l *safeLog) has(words ...string) bool {
	for line := range strings.Lines(l.String()) {
		found := true
		for _, word := range words {
			found = found && strings.Contains(line, word)
		}
		if found {
			return true
		}
	}
	return false
}

// accountKubeconfig is a kubeconfig with the token of a ServiceAccount of the release.
func (c *cluster) accountKubeconfig(t *testing.T, account string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData = nil, nil
		user.Token = c.token(t, releaseNamespace, account)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// token asks for a token of a ServiceAccount.
func (c *cluster) token(t *testing.T, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{}
	account.Name, account.Namespace = name, namespace
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// buildQuoin builds the program.
func buildQuoin(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "quoin")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/quoin")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return binary
}

// freeAddress is an address on loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// status is the status of a GET, 0 when there is no answer.
func status(ctx context.Context, url, token string) int {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(fmt.Sprintf("test: %v", err))
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The controller makes its certificate itself; nobody can check it.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}
