//go:build !memory

// Package scim_test reads like the RFCs of SCIM, requirement by requirement, and like what identity
// providers send. It asks two replicas of `quoin apiserver` over HTTPS; they ask a real
// kube-apiserver, beside which `quoin controller` runs: three processes, which tests may kill.
package scim_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/serving"
)

// inMemory tells that the protocol is tested without Kubernetes (go test -tags memory).
const inMemory = false

// k8s is the API server as an administrator sees it.
var k8s client.WithWatch

// process is a program that a test may kill and start again.
type process struct {
	args    []string
	env     []string
	logFile string
	command *exec.Cmd
}

// fronts are the two replicas of `quoin apiserver`; controller is `quoin controller`.
var (
	fronts     [2]*process
	controller *process
)

func (p *process) start() error {
	logs, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p.command = exec.Command(p.args[0], p.args[1:]...)
	p.command.Env = append(os.Environ(), p.env...)
	p.command.Stdout, p.command.Stderr = logs, logs
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return errors.Join(p.command.Start(), logs.Close())
}

// kill ends the process as a power cut would, and waits until it is gone.
func (p *process) kill() {
	if p.command != nil && p.command.Process != nil {
		_ = p.command.Process.Kill()
		_, _ = p.command.Process.Wait()
	}
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Println("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
		if os.Getenv("CI") != "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the world:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "quoin-scim-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "quoin")
	if out, err := exec.Command("go", "build", "-o", binary, "../../..").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build quoin: %w: %s", err, out)
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
	}
	config, err := env.Start()
	if err != nil {
		return 0, err
	}
	defer func() { _ = env.Stop() }()
	config.QPS = -1
	scheme, err := controllers.Scheme()
	if err != nil {
		return 0, err
	}
	if k8s, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		return 0, err
	}
	ctx := context.Background()
	if err := k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quoin-system"}}); err != nil {
		return 0, err
	}
	for _, a := range accounts {
		if err := a.furnish(ctx); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	defer stopAll()
	if err := startAll(ctx, binary, kubeconfig); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func startAll(ctx context.Context, binary, kubeconfig string) error {
	logs := os.Getenv("QUOIN_TEST_LOGS") // a folder to keep the logs in
	if logs == "" {
		logs = filepath.Dir(binary)
	}
	controller = &process{
		args:    []string{binary, "controller", "--kubeconfig", kubeconfig, "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--leader-elect=false"},
		logFile: filepath.Join(logs, "controller.log"),
	}
	if err := controller.start(); err != nil {
		return err
	}
	for i := range fronts {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		replicas[i] = address
		fronts[i] = &process{
			args: []string{binary, "apiserver", "--kubeconfig", kubeconfig, "--bind-address", address, "--metrics-bind-address", "0",
				"--health-probe-bind-address", "0", "--aggregation=false", "--requests-per-second", "1000000", "--burst", "1000000", "--shutdown-delay", "0s"},
			logFile: filepath.Join(logs, fmt.Sprintf("apiserver-%d.log", i)),
		}
		if err := fronts[i].start(); err != nil {
			return err
		}
	}
	return trust(ctx)
}

func stopAll() {
	for _, p := range []*process{fronts[0], fronts[1], controller} {
		if p != nil {
			p.kill()
		}
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// trust reads the certificate authority that the front ends have made, and waits for them.
func trust(ctx context.Context) error {
	return eventually(func() error {
		secret := &corev1.Secret{}
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: "quoin-system", Name: serving.SecretName}, secret); err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(secret.Data["ca.crt"])
		setRoots(pool)
		for _, a := range accounts {
			for replica := range replicas {
				if err := a.reachable(replica); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// furnish makes the tenant and its keys: what is kept of them is known, so the controller is not
// needed for it.
func (a *account) furnish(ctx context.Context) error {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.name}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: a.name}, Spec: v1alpha1.AccountSpec{
			Host: v1alpha1.Host(a.host), Namespace: a.name, Scim: a.scim(),
		}},
	}
	for _, key := range []struct {
		name  string
		token *string
		spec  v1alpha1.ApiKeySpec
	}{
		{"rfc", &a.rfc, v1alpha1.ApiKeySpec{ScimProfile: "RFC", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}}},
		{"okta", &a.okta, v1alpha1.ApiKeySpec{ScimProfile: "Okta", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}}},
		{"entra", &a.entra, v1alpha1.ApiKeySpec{ScimProfile: "EntraID", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}}},
		{"auto", &a.auto, v1alpha1.ApiKeySpec{}},
		{"reader", &a.reader, v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{"DeploymentRead"}}},
		{"scoped", &a.scoped, v1alpha1.ApiKeySpec{Deployments: []string{"analytics"}}},
	} {
		token, err := apikey.New(rand.Reader)
		if err != nil {
			return err
		}
		hash := token.Hash()
		*key.token, key.spec.Token = token.Reveal(), &hash
		objects = append(objects, &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: key.name}, Spec: key.spec})
	}
	for _, obj := range objects {
		if err := k8s.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// scim declares a schema of the account's own, in acme only.
func (a *account) scim() *v1alpha1.Scim {
	if a != acme {
		return nil
	}
	yes := true
	return &v1alpha1.Scim{Schemas: []v1alpha1.ScimSchema{{
		ID: attributesURN, ResourceType: "User", Name: "UserAttribute", Attributes: []v1alpha1.ScimAttribute{
			{Name: "team", Type: "string"}, {Name: "level", Type: "integer"}, {Name: "tags", Type: "string", MultiValued: &yes},
			{Name: "badge", Type: "string", CaseExact: &yes, Immutable: &yes}, {Name: "since", Type: "dateTime"}, {Name: "score", Type: "decimal"}, {Name: "remote", Type: "boolean"},
		},
	}}}
}

// logOf is what a process has logged.
func logOf(p *process) []byte {
	data, err := os.ReadFile(p.logFile)
	if err != nil {
		return nil
	}
	return bytes.TrimSpace(data)
}
