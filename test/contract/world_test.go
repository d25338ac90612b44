// Package contract_test reads like the documented API, row by row, and asks a real front end
// over HTTPS, which asks a real kube-apiserver. The real controllers run beside it, and a real
// Git server; only the kubelet is missing: workloads are ready as soon as they are written.
package contract_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ociname "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/serving"
)

// patience is how long something may take that has no deadline of its own.
const patience = 60 * time.Second

// k8s is the API server as an administrator sees it.
var k8s client.Client

// front is where `quoin apiserver` listens, roots are those of its certificate.
var (
	front     net.Addr
	roots     *x509.CertPool
	kubeAdmin *clientrest.Config
)

// The tenants. They have objects of the same names, so that a mix-up would be seen.
var (
	acme   = &account{name: "acme", host: "acme.example.com"}
	globex = &account{name: "globex", host: "globex.example.com", domain: "analytics.globex.example"}
)

// account is a tenant of the tests.
type account struct {
	name, host, domain string
	// admin is the token of a key with all permissions.
	admin string
	// id is the number of the deployment "analytics".
	id string
	// repository is the deployment's.
	repository *repository
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
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
	}
	config, err := env.Start()
	if err != nil {
		return 0, err
	}
	defer func() { _ = env.Stop() }()
	config.QPS = -1
	kubeAdmin = config
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if idp, err = newIdentityProvider(); err != nil {
		return 0, err
	}
	defer idp.Close()
	if err := startControllers(ctx, config); err != nil {
		return 0, err
	}
	go workloadsGetReady(ctx)
	folder, err := os.MkdirTemp("", "quoin-contract-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	failed := make(chan error, 1)
	confined, err := restricted(ctx, config)
	if err != nil {
		return 0, err
	}
	if err := startFront(ctx, confined, folder, failed); err != nil {
		return 0, err
	}
	git, err := newGitServer(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(git.root) }()
	gitHost = git
	if err := channels(ctx); err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.furnish(ctx, git); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	if err := trust(ctx); err != nil {
		return 0, err
	}
	code := m.Run()
	select {
	case err := <-failed:
		return 0, fmt.Errorf("the front end ended: %w", err)
	default:
		return code, nil
	}
}

func startControllers(ctx context.Context, config *clientrest.Config) error {
	scheme, err := controllers.Scheme()
	if err != nil {
		return err
	}
	if k8s, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quoin-system"}}); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Cache: controllers.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = controllers.Setup(ctx, mgr, controllers.Config{Namespace: "quoin-system", Image: "quoin:test", Concurrency: 4, AllowInsecureGit: true})
	if err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			panic(err)
		}
	}()
	return nil
}

func startFront(ctx context.Context, config *clientrest.Config, folder string, failed chan error) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listening := make(chan serving.Addresses, 1)
	logs, err := os.Create(filepath.Join(os.TempDir(), "quoin-contract.log"))
	if err != nil {
		return err
	}
	go func() {
		failed <- apiserver.Run(ctx, config, apiserver.Config{
			Namespace: "quoin-system", Region: rest.Region{Name: "here", Title: "Here"}, Version: "test",
			HTTPS: serving.Endpoint{Listener: listener}, OnListen: func(a serving.Addresses) { listening <- a },
			DatabaseURL: "sqlite://" + filepath.Join(folder, "audit.db"), OIDCClient: idp.Client(), RequestsPerSecond: 1e6, Burst: 1e6, Log: slog.New(slog.NewTextHandler(logs, nil)),
		})
	}()
	select {
	case addresses := <-listening:
		front = addresses.HTTPS
		return nil
	case err := <-failed:
		return err
	case <-time.After(patience):
		return fmt.Errorf("the front end does not listen after %s", patience)
	}
}

// trust reads the certificate authority that the front end has made.
func trust(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: "quoin-system", Name: serving.SecretName}, secret); err != nil {
		return err
	}
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return fmt.Errorf("%s has no ca.crt", serving.SecretName)
	}
	for _, host := range []string{acme.host, globex.host, globex.domain} {
		err := eventually(func() error { // the certificate follows the accounts
			dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}
			conn, err := dialer.DialContext(ctx, "tcp", front.String())
			if err != nil {
				return err
			}
			return conn.Close()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// workloadsGetReady is what a cluster does with workloads, at once.
func workloadsGetReady(ctx context.Context) {
	for ctx.Err() == nil {
		list := &appsv1.DeploymentList{}
		if err := k8s.List(ctx, list); err == nil {
			for i := range list.Items {
				d, n := &list.Items[i], ptr.Deref(list.Items[i].Spec.Replicas, 1)
				if d.Status.ObservedGeneration == d.Generation {
					continue
				}
				before := d.DeepCopy()
				d.Status = appsv1.DeploymentStatus{
					ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
				}
				_ = k8s.Status().Patch(ctx, d, client.MergeFrom(before)) // tried again if it fails
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// imageRepository is that of all channels, in a real registry on loopback.
var imageRepository string

// channels pushes three versions and makes two channels of them: latest has 1.2.2 and 1.2.3,
// release has 1.1.0.
func channels(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	imageRepository = listener.Addr().String() + "/team/cube"
	for name, versions := range map[string][]string{"latest": {"1.2.2", "1.2.3"}, "release": {"1.1.0"}} {
		c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ReleaseChannelSpec{ImageRepository: imageRepository}}
		for _, v := range versions {
			image, err := random.Image(64, 1)
			if err != nil {
				return err
			}
			tag, err := ociname.NewTag(imageRepository + ":v" + v)
			if err != nil {
				return err
			}
			if err := remote.Write(tag, image, remote.WithContext(ctx)); err != nil {
				return err
			}
			c.Spec.Versions = append(c.Spec.Versions, v1alpha1.ListedVersion{Version: v})
		}
		if err := k8s.Create(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// furnish makes the tenant: its namespace, an admin key by YAML, and the deployment
// "analytics" with its model in Git, on the branches main, next and dev-ada.
func (a *account) furnish(ctx context.Context, git *gitServer) error {
	var err error
	if a.repository, err = git.repository(a.name); err != nil {
		return err
	}
	spec := v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host), Namespace: a.name,
		// All that the tests change goes through the audit log.
		Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}
	if a == acme {
		spec.OIDCIssuers = idp.trusted()
	}
	if a.domain != "" {
		spec.CustomDomains = []v1alpha1.Host{v1alpha1.Host(a.domain)}
	}
	analytics := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "analytics"},
		Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{
			URL: a.repository.url, Interval: &metav1.Duration{Duration: time.Second},
		}}},
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.name}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: a.name}, Spec: spec},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "admin"}},
		analytics,
	} {
		if err := k8s.Create(ctx, obj); err != nil {
			return err
		}
	}
	if err := a.letRead(ctx); err != nil {
		return err
	}
	token := &corev1.Secret{}
	err = eventually(func() error {
		return k8s.Get(ctx, client.ObjectKey{Namespace: a.name, Name: "admin-token"}, token)
	})
	if err != nil {
		return err
	}
	a.admin = string(token.Data["token"])
	return eventually(func() error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(analytics), analytics); err != nil {
			return err
		}
		a.id = analytics.Status.ID
		list := &v1alpha1.BranchList{}
		if err := k8s.List(ctx, list, client.InNamespace(a.name)); err != nil {
			return err
		}
		if analytics.Status.CurrentVersion != "1.2.3" || len(list.Items) != 3 {
			return fmt.Errorf("analytics runs %q and has %d branches: %v", analytics.Status.CurrentVersion, len(list.Items), analytics.Status.Conditions)
		}
		return nil
	})
}

func eventually(check func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// gitServer serves repositories on loopback with the git binary.
type gitServer struct{ root, url string }

// gitHost serves those of all deployments.
var gitHost *gitServer

type repository struct{ dir, url string }

func newGitServer(ctx context.Context) (*gitServer, error) {
	root, err := os.MkdirTemp("", "quoin-contract-git-")
	if err != nil {
		return nil, err
	}
	path, err := git(root, "", "--exec-path")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &cgi.Handler{
		Path: filepath.Join(path, "git-http-backend"), Dir: root, Stderr: io.Discard,
		Env: append(quietGit, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
	}}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return &gitServer{root: root, url: "http://" + listener.Addr().String()}, nil
}

func (g *gitServer) repository(name string) (*repository, error) {
	r := &repository{dir: filepath.Join(g.root, name+".git"), url: g.url + "/" + name + ".git"}
	if _, err := git(g.root, "", "init", "--quiet", "--bare", "--initial-branch=main", r.dir); err != nil {
		return nil, err
	}
	for _, branch := range []string{"main", "next", "dev-ada"} {
		if err := r.commit(branch); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *repository) commit(branch string) error {
	_, err := r.push(branch, "model of "+branch)
	return err
}

// push moves a branch to a new commit, and returns it.
func (r *repository) push(branch, message string) (string, error) {
	blob, err := git(r.dir, "cubes: [] # "+branch+"\n", "hash-object", "-w", "--stdin")
	if err != nil {
		return "", err
	}
	tree, err := git(r.dir, "100644 blob "+blob+"\torders.yml\n", "mktree")
	if err != nil {
		return "", err
	}
	hash, err := git(r.dir, "", "commit-tree", tree, "-m", message)
	if err != nil {
		return "", err
	}
	_, err = git(r.dir, "", "update-ref", "refs/heads/"+branch, hash)
	return hash, err
}

// quietGit keeps the settings of whoever runs the tests out of them.
var quietGit = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
	"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com",
}

func git(dir, stdin string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), quietGit...), strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %v: %w", args, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// answer is what came back.
type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	raw    []byte
}

// as is a caller: a token, the host it calls, and the way it names the credential.
type as struct{ host, authorization string }

func (a *account) as(token string) as { return as{a.host, "Bearer " + token} }

var transport = &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", front.String())
	},
	MaxIdleConnsPerHost: 64, ForceAttemptHTTP2: true,
}

func httpClient() *http.Client {
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// call sends a request; body is a value for JSON, a string as it is, or nil.
func (c as) call(t testing.TB, method, path string, body any, headers ...string) *answer {
	t.Helper()
	var reader io.Reader
	contentType := ""
	switch b := body.(type) {
	case nil:
	case string:
		reader, contentType = strings.NewReader(b), "application/json"
	default:
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		reader, contentType = bytes.NewReader(data), "application/json"
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, "https://"+acme.host+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = c.host // the certificate is checked where the world begins
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if c.authorization != "" {
		req.Header.Set("Authorization", c.authorization)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	response, err := httpClient().Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return &answer{t: t, what: method + " " + path, status: response.StatusCode, header: response.Header, raw: raw}
}

// is checks the status.
func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.raw)
	}
	return a
}

// refused checks the status and that the error is one text that has all the words.
func (a *answer) refused(status int, words ...string) {
	a.t.Helper()
	a.is(status)
	var body map[string]any
	if err := json.Unmarshal(a.raw, &body); err != nil || len(body) != 1 {
		a.t.Fatalf("%s: the body of an error is {\"error\": …} and nothing else, got %s", a.what, a.raw)
	}
	message, _ := body["error"].(string)
	for _, word := range words {
		if !strings.Contains(message, word) {
			a.t.Errorf("%s: the error does not name %q: %s", a.what, word, message)
		}
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		a.t.Errorf("%s: Content-Type is %q", a.what, got)
	}
}

// at reads a dotted path of the body: objects by name, arrays by number.
func (a *answer) at(path string) any {
	a.t.Helper()
	var value any
	if err := json.Unmarshal(a.raw, &value); err != nil {
		a.t.Fatalf("%s: not JSON: %s", a.what, a.raw)
	}
	for part := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			i := 0
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// list reads an array of the body.
func (a *answer) list(path string) []map[string]any {
	a.t.Helper()
	items, ok := a.at(path).([]any)
	if !ok {
		a.t.Fatalf("%s: %s is no array: %s", a.what, path, a.raw)
	}
	all := make([]map[string]any, len(items))
	for i := range items {
		all[i], _ = items[i].(map[string]any)
	}
	return all
}

// want checks a value of the body.
func (a *answer) want(path string, value any) *answer {
	a.t.Helper()
	if got := a.at(path); got != value {
		a.t.Errorf("%s: %s is %v (%T), want %v: %s", a.what, path, got, got, value, a.raw)
	}
	return a
}
