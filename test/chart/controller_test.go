package chart_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

	"github.com/quoin-dev/quoin/internal/serving/logtest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// TestControllerRunsWithItsRole starts the controller locally, with the arguments and the ServiceAccount of the chart.
func TestControllerRunsWithItsRole(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace, "monitoring", "tenant-a")
	c.helm(t, "install", releaseName, chartFolder, "--set", readers)
	c.createScrapers(t)
	health, metrics := freeAddress(t), freeAddress(t)
	log, stop := c.run(t, "controller", buildQuoin(t), "--health-probe-bind-address="+health, "--metrics-bind-address="+metrics)
	c.eventually(t, "the controller is ready", func(ctx context.Context) bool {
		return status(ctx, "http://"+health+"/readyz", "") == http.StatusOK
	})
	// Workers start when all watches are established, which needs the permissions.
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
	c.wantMetrics(t, metrics)
	wantReady(t, "--https="+metrics)
	stop()
	wantNoForbidden(t, log)
}

// wantNoForbidden fails the test for each permission that the program lacked.
func wantNoForbidden(t *testing.T, log *safeLog) {
	t.Helper()
	// Missing permissions are logged, and do not change the exit code.
	for line := range strings.Lines(log.String()) {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("missing permission: %s", line)
		}
	}
	if t.Failed() {
		t.Logf("the program's log:\n%s", log)
	}
}

// run starts a component with the arguments of its Deployment and other addresses. It returns the log and a function that
// stops the program.
func (c *cluster) run(t *testing.T, component, binary string, addresses ...string) (*safeLog, func()) {
	t.Helper()
	container := only[appsv1.Deployment](t, render(t).of(component), "Deployment").Spec.Template.Spec.Containers[0]
	// The last value of a flag applies: several runs of this test may share a machine.
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
			t.Errorf("the %s exited with %v", component, err)
		}
	}
}

// safeLog is a log that can be read and written concurrently.
type safeLog struct{ logtest.Buffer }

// has reports whether a line contains all words.
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

// accountKubeconfig writes a kubeconfig with the token of a ServiceAccount of the release.
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

// token returns a token of a ServiceAccount.
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

// buildQuoin builds `quoin`.
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

// freeAddress returns a loopback address that is reserved for a process.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// status returns the status of a GET, or 0 without a response.
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
	// The certificate of the controller is self-signed.
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
