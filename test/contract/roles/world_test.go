// Package roles_test tests roles over REST, and what every kind of caller may do on every route. The REST and SCIM server and the
// controller of roles run in the test process, with a real kube-apiserver.
package roles_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/quoin-dev/quoin/controllers/accountrole"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

// The keys that sign tokens for the data API.
const secretOfPods, ofGateway = "the secret that the pods know", "of the gateway"

var (
	k8s     client.Client
	address net.Addr
	roots   http.RoundTripper
	issuer  = oidcprovider.New()
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s = c.Client
	if err := errors.Join(rbacv1.AddToScheme(k8s.Scheme()), authenticationv1.AddToScheme(k8s.Scheme())); err != nil {
		return 0, err
	}
	if err := startController(ctx, c.As(clustertest.Controller)); err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "roles-")
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

// startController starts the controller of AccountRoles, which allocates their numbers.
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
	r := accountrole.New(writer, mgr.GetEventRecorder(accountrole.FieldManager), clock.RealClock{}, ids.New(writer))
	if err := accountrole.SetupWithManager(mgr, r, controller.Options{}); err != nil {
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
			HTTPS: serving.Endpoint{Listener: listener}, OIDCClient: issuer.Client(), OnListen: func(a serving.Addresses) { listening <- a },
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

// account is an account with the deployments analytics, whose number is 1, and sales, whose number is 3. Their production
// environments have the numbers 2 and 4.
type account struct {
	name string
	// admin and reader are tokens of keys without an owner.
	admin, reader string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

func (a *account) host() string { return a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	var objects []client.Object
	for name, key := range map[string]struct {
		token *string
		spec  v1alpha1.ApiKeySpec
	}{
		"admin":  {&a.admin, v1alpha1.ApiKeySpec{}},
		"reader": {&a.reader, v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}}},
	} {
		object, token, err := clustertest.Key(a.name, name, key.spec)
		if err != nil {
			return err
		}
		*key.token, objects = token, append(objects, object)
	}
	spec := v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
		GitHub: &v1alpha1.AccountGitHub{InstallationIDs: []int64{1}},
	}
	if a == acme {
		spec.OIDCIssuers = []v1alpha1.OIDCIssuer{{
			URL: issuer.URL, Audiences: []string{"quoin"}, AdminGroups: []string{"admins"},
			GroupRoles: []v1alpha1.OIDCGroupRoles{{Group: "developers", Roles: []v1alpha1.AccountRoleReference{"Developer"}}},
		}}
	}
	if err := c.Account(ctx, a.name, spec, objects...); err != nil {
		return err
	}
	return errors.Join(a.deploy(ctx, "analytics", 1), a.deploy(ctx, "sales", 3))
}

// deploy creates a deployment with a number, and its production environment with the next one.
func (a *account) deploy(ctx context.Context, name string, number int) error {
	environment := v1alpha1.ProductionName(name)
	production := &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: environment, Labels: map[string]string{v1alpha1.LabelID: strconv.Itoa(number + 1)}},
		Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: name}, Type: v1alpha1.EnvironmentProduction, Image: "registry.example.com/cube:v1", Version: "1.0.0",
		},
	}
	for _, o := range []client.Object{
		&v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name, Labels: map[string]string{v1alpha1.LabelID: strconv.Itoa(number)}},
			Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: engine.CredentialsName(environment)}, Data: map[string][]byte{engine.KeyAPISecret: []byte(secretOfPods)}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: engine.GatewayCredentialsName(environment)}, Data: map[string][]byte{engine.KeyMetadata: []byte(ofGateway)}},
		production,
	} {
		if err := k8s.Create(ctx, o); err != nil {
			return err
		}
	}
	before := production.DeepCopy()
	production.Status.CredentialsSecret = engine.CredentialsName(environment)
	return k8s.Status().Patch(ctx, production, client.MergeFrom(before))
}

// user creates a user with roles, and returns the token of a key with all permissions that it owns. Both are deleted after the test.
func (a *account) user(t *testing.T, name string, roles ...v1alpha1.AccountRoleReference) string {
	t.Helper()
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: name, AccountRoles: roles}}
	a.add(t, u)
	return a.key(t, "of-"+name, v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: name}})
}

// key creates a key and returns its token, when the server accepts it.
func (a *account) key(t *testing.T, name string, spec v1alpha1.ApiKeySpec) string {
	t.Helper()
	object, token, err := clustertest.Key(a.name, name, spec)
	if err != nil {
		t.Fatal(err)
	}
	a.add(t, object)
	apiclient.Soon(t, func() error {
		if got := a.call(t, token, "GET", "/api/v1/users/me", nil); got.status != 200 {
			return fmt.Errorf("the key is answered %d %s", got.status, got.raw)
		}
		return nil
	})
	return token
}

// add creates an object, which is deleted after the test.
func (a *account) add(t *testing.T, o client.Object) {
	t.Helper()
	if err := k8s.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(k8s.Delete(context.Background(), o)); err != nil {
			t.Error(err)
		}
	})
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

// role creates a role over REST, and deletes it after the test. It returns the number.
func (a *account) role(t *testing.T, properties map[string]any) string {
	t.Helper()
	id := fmt.Sprintf("%.0f", a.call(t, a.admin, "POST", rolesPath, properties).is(200).at("id"))
	t.Cleanup(func() { a.call(t, a.admin, "DELETE", rolesPath+"/"+id, nil) })
	return id
}

// claims returns the claims of a token, which must be signed with a key.
func claims(t *testing.T, token any, key string) jwt.MapClaims {
	t.Helper()
	text, _ := token.(string)
	parsed := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(text, parsed, func(*jwt.Token) (any, error) { return []byte(key), nil }, jwt.WithValidMethods([]string{"HS256"})); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return parsed
}

// meta returns the metadata of an object of acme.
func meta(name string) metav1.ObjectMeta { return metaIn(acme, name) }

func metaIn(a *account, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: a.name, Name: name}
}

func soon(t *testing.T, try func() error) {
	t.Helper()
	apiclient.Soon(t, try)
}

// setDefault sets the default role of globex until the end of the test.
func setDefault(t *testing.T, role string) {
	t.Helper()
	set := func(ctx context.Context, value string) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"defaultRole":`+value+`}}`))
		return k8s.Patch(ctx, &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: globex.name}}, patch)
	}
	if err := set(t.Context(), strconv.Quote(role)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set(context.Background(), "null"); err != nil {
			t.Error(err)
		}
	})
}
