// Package attributes_test tests user attributes and their values over REST and SCIM, and in the tokens that people create. The
// REST and SCIM server and the controllers of attributes and users run in the test process, with a real kube-apiserver.
package attributes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/controllers/userattribute"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

const secretOfPods = "the secret that the pods know"

var (
	k8s     client.Client
	address net.Addr
	roots   http.RoundTripper
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s = c.Client
	if err := startController(ctx, c.As(clustertest.Controller)); err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "attributes-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	failed := make(chan error, 1)
	if err := startServer(ctx, c.As(clustertest.APIServer), "sqlite://"+filepath.Join(folder, "quoin.db"), failed); err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.create(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	pool, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	roots = apiclient.Transport(pool, address.String)
	code := m.Run()
	select {
	case err := <-failed:
		return 0, fmt.Errorf("quoin apiserver stopped: %w", err)
	default:
		return code, nil
	}
}

// startController starts the controller of UserAttributes, which allocates their numbers.
func startController(ctx context.Context, config *clientrest.Config) error {
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: k8s.Scheme(), Cache: controllers.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Account{}, tenant.IndexNamespace, func(o client.Object) []string {
		a, _ := o.(*v1alpha1.Account)
		return []string{a.Spec.Namespace}
	})
	if err != nil {
		return err
	}
	writer := kube.NewClient(mgr.GetClient(), mgr.GetAPIReader(), "quoin-controller")
	r := userattribute.New(writer, mgr.GetEventRecorder(userattribute.FieldManager), clock.RealClock{}, ids.New(writer))
	if err := userattribute.SetupWithManager(mgr, r, controller.Options{}); err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			panic(err)
		}
	}()
	return nil
}

func startServer(ctx context.Context, config *clientrest.Config, database string, failed chan error) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listening := make(chan serving.Addresses, 1)
	go func() {
		failed <- apiserver.Run(ctx, config, apiserver.Config{
			Namespace: clustertest.Namespace, Version: "test", DatabaseURL: database, RequestsPerSecond: 1e6, Burst: 1e6, Log: slog.New(slog.DiscardHandler),
			HTTPS: serving.Endpoint{Listener: listener}, OnListen: func(a serving.Addresses) { listening <- a },
		})
	}()
	select {
	case addresses := <-listening:
		address = addresses.HTTPS
		return nil
	case err := <-failed:
		return err
	case <-time.After(3 * apiclient.Timeout):
		return fmt.Errorf("quoin apiserver does not listen after %s", 3*apiclient.Timeout)
	}
}

// account is an account with a deployment, whose number is 1, and its production environment, whose number is 2.
type account struct {
	name string
	// admin, scim and reader are tokens of keys without an owner; ada's key has the user ada as its owner.
	admin, scim, reader, ada string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) host() string { return a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	objects := []client.Object{
		&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com", Admin: new(true)}},
		&v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "analytics", Labels: map[string]string{v1alpha1.LabelID: "1"}},
			Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: engine.CredentialsName(v1alpha1.ProductionName("analytics"))},
			Data:       map[string][]byte{engine.KeyAPISecret: []byte(secretOfPods)},
		},
	}
	for name, key := range map[string]struct {
		token *string
		spec  v1alpha1.ApiKeySpec
	}{
		"admin":  {&a.admin, v1alpha1.ApiKeySpec{}},
		"scim":   {&a.scim, v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}}},
		"reader": {&a.reader, v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}}},
		"ada":    {&a.ada, v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ada"}}},
	} {
		object, token, err := clustertest.Key(a.name, name, key.spec)
		if err != nil {
			return err
		}
		*key.token, objects = token, append(objects, object)
	}
	if err := c.Account(ctx, a.name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}, objects...); err != nil {
		return err
	}
	production := &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: v1alpha1.ProductionName("analytics"), Labels: map[string]string{v1alpha1.LabelID: "2"}},
		Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: "analytics"}, Type: v1alpha1.EnvironmentProduction, Image: "registry.example.com/cube:v1", Version: "1.0.0",
		},
	}
	if err := k8s.Create(ctx, production); err != nil {
		return err
	}
	before := production.DeepCopy()
	production.Status.CredentialsSecret = engine.CredentialsName(production.Name)
	return k8s.Status().Patch(ctx, production, client.MergeFrom(before))
}

// answer is the response to a request.
type answer struct {
	t      *testing.T
	what   string
	status int
	raw    []byte
}

// call sends a request with a token of an account.
func (a *account) call(t *testing.T, token, method, path string, body any) *answer {
	t.Helper()
	var got *apiclient.Response
	apiclient.Soon(t, func() (err error) { // the certificate is renewed for new accounts
		got, err = apiclient.Request{
			Method: method, URL: "https://" + a.host() + path, Authorization: "Bearer " + token, Body: body, MediaType: "application/json",
		}.Send(context.WithoutCancel(t.Context()), &http.Client{Transport: roots, Timeout: apiclient.Timeout})
		return err
	})
	return &answer{t, method + " " + path, got.Status, got.Body}
}

func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.raw)
	}
	return a
}

// rejected checks the status and that the error contains all words.
func (a *answer) rejected(status int, words ...string) {
	a.t.Helper()
	a.is(status)
	for _, word := range words {
		if !strings.Contains(string(a.raw), word) {
			a.t.Errorf("%s: the error does not contain %q: %s", a.what, word, a.raw)
		}
	}
}

// at returns the value at a path of the body.
func (a *answer) at(path string) any {
	a.t.Helper()
	var value any
	if err := json.Unmarshal(a.raw, &value); err != nil {
		a.t.Fatalf("%s: not JSON: %s", a.what, a.raw)
	}
	value, _ = apiclient.Lookup(value, path)
	return value
}

// want checks values of the body as JSON, by path.
func (a *answer) want(values map[string]string) *answer {
	a.t.Helper()
	for path, want := range values {
		if got, _ := json.Marshal(a.at(path)); string(got) != want {
			a.t.Errorf("%s: %s is %s, want %s: %s", a.what, path, got, want, a.raw)
		}
	}
	return a
}

// attribute creates a user attribute over REST, and deletes it after the test. It returns the number.
func (a *account) attribute(t *testing.T, properties map[string]any) string {
	t.Helper()
	id := fmt.Sprintf("%.0f", a.call(t, a.admin, "POST", attributesPath, properties).is(200).at("id"))
	t.Cleanup(func() {
		object := &v1alpha1.UserAttribute{}
		object.Namespace, object.Name = a.name, strings.ReplaceAll(strings.ToLower(properties["name"].(string)), "_", "-")
		if err := client.IgnoreNotFound(k8s.Delete(context.Background(), object)); err != nil {
			t.Error(err)
		}
	})
	return id
}

// claims returns the claims of a token as JSON, which must be signed with the secret of the pods.
func claims(t *testing.T, token any) jwt.MapClaims {
	t.Helper()
	text, _ := token.(string)
	parsed := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(text, parsed, func(*jwt.Token) (any, error) { return []byte(secretOfPods), nil }, jwt.WithValidMethods([]string{"HS256"})); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return parsed
}
