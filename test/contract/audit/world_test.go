// Package audit_test reads like the documented export of the audit log: each parameter, each
// precondition, and what becomes of events when something dies. `quoin apiserver` is a process,
// Kubernetes' API server and both databases are real, and tests kill them.
package audit_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"encoding/json"
	"errors"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

// patience is how long something may take that has no deadline of its own.
const patience = 60 * time.Second

// cluster is Kubernetes, shared by all tests.
type cluster struct {
	api        client.Client
	kubeconfig string
	binary     string
}

var kubernetes *cluster

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
	dir, err := os.MkdirTemp("", "quoin-audit-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	kubernetes = &cluster{binary: filepath.Join(dir, "quoin"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	if out, err := exec.Command("go", "build", "-o", kubernetes.binary, "../../..").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build quoin: %w: %s", err, out)
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		return 0, err
	}
	defer func() { _ = env.Stop() }()
	config.QPS = -1
	if err := os.WriteFile(kubernetes.kubeconfig, env.KubeConfig, 0o600); err != nil {
		return 0, err
	}
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return 0, err
	}
	if kubernetes.api, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return 0, err
	}
	if err := kubernetes.api.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quoin-system"}}); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// databases are the kinds that there are: each test runs on all of them.
var databases = map[string]func(t *testing.T) *database{
	"sqlite": func(t *testing.T) *database {
		return &database{url: "sqlite://" + filepath.Join(t.TempDir(), "quoin.db")}
	},
	"postgres": func(t *testing.T) *database {
		server := postgrestest.StartServer(t)
		return &database{url: server.Database(t), server: server}
	},
}

type database struct {
	url string
	// server is PostgreSQL; nil for SQLite.
	server *postgrestest.Server
}

// onEach runs a test on each database, with an account and a front end of its own.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	for name := range databases {
		on(t, name, test)
	}
}

// on runs a test on one database.
func on(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Run(name, func(t *testing.T) {
		w := &world{t: t, account: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), database: databases[name](t), log: filepath.Join(t.TempDir(), "apiserver.log")}
		w.furnish()
		w.address = freeAddress(t)
		w.start()
		t.Cleanup(w.kill)
		test(t, w)
	})
}

// world is an account whose audit log is on, and the front end that answers for it.
type world struct {
	t        *testing.T
	account  string
	database *database
	address  string
	log      string
	client   *http.Client
	command  *exec.Cmd
	// admin may do everything, by default.
	admin string
	// isAway is set while the front end or its database is killed and started again.
	isAway atomic.Bool
	// started is before the account's first change.
	started time.Time
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) host() string { return w.account + ".example.com" }

// furnish makes the account and its first key.
func (w *world) furnish() {
	w.t.Helper()
	ok(w.t, kubernetes.api.Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.account}}))
	ok(w.t, kubernetes.api.Create(w.t.Context(), &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: w.account}, Spec: v1alpha1.AccountSpec{
		Host: v1alpha1.Host(w.host()), Namespace: w.account,
		Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}}))
	w.admin = w.key("admin", v1alpha1.ApiKeySpec{})
	w.started = time.Now().Add(-time.Second)
}

// key makes a key as an administrator does with kubectl, and returns its token.
func (w *world) key(name string, spec v1alpha1.ApiKeySpec) string {
	w.t.Helper()
	token, err := apikey.New(rand.Reader)
	ok(w.t, err)
	hash := token.Hash()
	spec.Token = &hash
	ok(w.t, kubernetes.api.Create(w.t.Context(), &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: w.account, Name: name}, Spec: spec}))
	return token.Reveal()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start starts the front end and waits until it answers for the account.
func (w *world) start() {
	w.t.Helper()
	logs, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ok(w.t, err)
	w.command = exec.Command(kubernetes.binary, "apiserver", "--kubeconfig", kubernetes.kubeconfig, "--bind-address", w.address, "--metrics-bind-address", "0",
		"--health-probe-bind-address", "0", "--aggregation=false", "--requests-per-second", "1000000", "--burst", "1000000", "--shutdown-delay", "0s")
	// A URL with a password does not belong in arguments, which everybody on the machine sees.
	w.command.Env = append(os.Environ(), "DATABASE_URL="+w.database.url)
	w.command.Stdout, w.command.Stderr = logs, logs
	w.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ok(w.t, errors.Join(w.command.Start(), logs.Close()))
	w.eventually(func() error {
		secret := &corev1.Secret{}
		if err := kubernetes.api.Get(w.t.Context(), client.ObjectKey{Namespace: "quoin-system", Name: serving.SecretName}, secret); err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(secret.Data["ca.crt"])
		w.client = &http.Client{Timeout: patience, Transport: &http.Transport{
			MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, w.address)
			},
		}}
		// An export works once the database is open.
		if a := w.call(w.admin, http.MethodGet, "/api/v1/audit-logs/export", nil); a.status != http.StatusOK {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
}

// kill ends the front end as a power cut would.
func (w *world) kill() {
	_ = w.command.Process.Kill() // it may have ended
	_, _ = w.command.Process.Wait()
}

func (w *world) eventually(try func() error) {
	w.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	text, _ := os.ReadFile(w.log)
	w.t.Fatalf("%v; the front end's log:\n%s", err, text)
}

// answer is what was answered; status 0 when nothing was.
type answer struct {
	status int
	header http.Header
	text   string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.text) }

// field is a field of an answer in JSON.
func (a answer) field(name string) string {
	var fields map[string]any
	_ = json.Unmarshal([]byte(a.text), &fields) // an answer that is none has no fields
	text, _ := fields[name].(string)
	return text
}

// call sends a request, as a program does. It may be called from any goroutine.
func (w *world) call(token, method, path string, body any) answer {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return answer{text: err.Error()}
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, "https://"+w.host()+path, reader)
	if err != nil {
		return answer{text: err.Error()}
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := w.client.Do(request)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{text: err.Error()}
	}
	return answer{status: response.StatusCode, header: response.Header, text: string(data)}
}

// want calls and expects a status.
func (w *world) want(status int, token, method, path string, body any) answer {
	w.t.Helper()
	a := w.call(token, method, path, body)
	if a.status != status {
		w.t.Fatalf("%s %s: %s, want %d", method, path, a, status)
	}
	return a
}

// row is an event of an export, by column.
type row map[string]string

// export is the whole of what some filters let through, but for exports themselves.
func (w *world) export(filters url.Values) []row {
	w.t.Helper()
	a := w.want(http.StatusOK, w.admin, http.MethodGet, "/api/v1/audit-logs/export?"+filters.Encode(), nil)
	records, err := csv.NewReader(strings.NewReader(a.text)).ReadAll()
	ok(w.t, err)
	if len(records) == 0 {
		w.t.Fatal("no header row")
	}
	var rows []row
	for _, record := range records[1:] {
		r := row{}
		for i, name := range records[0] {
			r[name] = record[i]
		}
		if r["event"] != "Exported audit log" {
			rows = append(rows, r)
		}
	}
	return rows
}

// concurrently runs work many times, so many at once.
func concurrently(times, atOnce int, work func(i int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		group.Go(func() {
			for i := range next {
				work(i)
			}
		})
	}
	for i := range times {
		next <- i
	}
	close(next)
	group.Wait()
}
