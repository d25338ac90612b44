// Package people_test tests users and groups over REST: each operation, each rejection, and changes during crashes and
// races. `quoin apiserver` and kube-apiserver are real processes.
package people_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// kubernetes is shared by all tests.
var kubernetes *clustertest.Cluster

func TestMain(m *testing.M) {
	clustertest.Main(m, func(_ context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
		kubernetes = c
		if err := c.Build(); err != nil {
			return 0, err
		}
		return m.Run(), nil
	})
}

const (
	usersPath    = "/api/v1/users"
	groupsPath   = "/api/v1/user-groups"
	settingsPath = usersPath + "/me/settings"
)

// world is an account with an audit log, and the `quoin apiserver` that serves it.
type world struct {
	*testing.T
	account string
	address string
	server  *clustertest.Process
	client  *http.Client
	// admin is the token of a key that belongs to no user.
	admin string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	address, err := freeport.Address()
	ok(t, err)
	w := &world{T: t, account: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), address: address}
	w.admin = w.addAccount(w.account)
	w.server = kubernetes.APIServer(filepath.Join(t.TempDir(), "apiserver.log"), address)
	w.server.Env = []string{"DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "quoin.db")}
	t.Cleanup(w.server.Kill)
	w.start()
	return w
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addAccount creates an account and returns the token of a key with all permissions.
func (w *world) addAccount(name string) string {
	w.Helper()
	ok(w, kubernetes.Account(w.Context(), name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(name + ".example.com"), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}))
	return w.keyIn(name, "admin", v1alpha1.ApiKeySpec{})
}

// keyIn creates an ApiKey in an account and returns its token; key does so in the account of the test.
func (w *world) keyIn(account, name string, spec v1alpha1.ApiKeySpec) string {
	w.Helper()
	key, token, err := clustertest.Key(account, name, spec)
	ok(w, err)
	ok(w, kubernetes.Client.Create(w.Context(), key))
	return token
}

func (w *world) key(name string, spec v1alpha1.ApiKeySpec) string {
	w.Helper()
	return w.keyIn(w.account, name, spec)
}

// keyOf creates a key with all permissions that belongs to a user.
func (w *world) keyOf(user string) string {
	w.Helper()
	return w.key("of-"+user, v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: user}})
}

// start starts the server and waits until it serves the account.
func (w *world) start() {
	w.Helper()
	ok(w, w.server.Start())
	err := apiclient.Eventually(func() error {
		if w.client == nil {
			roots, err := kubernetes.Roots(w.Context())
			if err != nil {
				return err
			}
			w.client = &http.Client{Timeout: apiclient.Timeout, Transport: apiclient.Transport(roots, func() string { return w.address })}
		}
		// An export works once the database is open.
		if a := w.call(w.admin, http.MethodGet, "/api/v1/audit-logs/export", nil); a.status != http.StatusOK {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
	if err != nil {
		w.Fatalf("%v; log of the server:\n%s", err, w.server.Log())
	}
}

// response is a response; its status is 0 if there was none.
type response struct {
	status int
	text   string
}

func (a response) String() string { return fmt.Sprintf("%d %s", a.status, a.text) }

// at returns a value of the JSON body; nil if it has none.
func (a response) at(path string) any {
	decoder := json.NewDecoder(strings.NewReader(a.text))
	decoder.UseNumber()
	var body any
	if decoder.Decode(&body) != nil {
		return nil
	}
	value, _ := apiclient.Lookup(body, path)
	return value
}

// id returns the id of the user or group in the response.
func (a response) id() string { return fmt.Sprint(a.at("id")) }

// call sends a request. It may be called from any goroutine.
func (w *world) call(token, method, path string, body any) response {
	got, err := apiclient.Request{
		Method: method, URL: "https://" + w.account + ".example.com" + path, Authorization: "Bearer " + token, Body: body, MediaType: "application/json",
	}.Send(context.Background(), w.client)
	if err != nil {
		return response{text: err.Error()}
	}
	return response{got.Status, string(got.Body)}
}

// want sends a request and checks the status of the response, and that an error contains texts.
func (w *world) want(status int, token, method, path string, body any, texts ...string) response {
	w.Helper()
	a := w.call(token, method, path, body)
	if a.status != status {
		w.Fatalf("%s %s: %s, want %d", method, path, a, status)
	}
	for _, text := range texts {
		if !strings.Contains(a.text, text) {
			w.Errorf("%s %s: %s, want %q in it", method, path, a, text)
		}
	}
	return a
}

// has checks values of the JSON body: paths and values, alternating. A missing value is nil.
func (w *world) has(a response, pathsAndValues ...any) {
	w.Helper()
	for i := 0; i+1 < len(pathsAndValues); i += 2 {
		path, _ := pathsAndValues[i].(string)
		got, want := a.at(path), pathsAndValues[i+1]
		if number, is := want.(int); is {
			want = json.Number(strconv.Itoa(number))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			w.Errorf("%s is %v, want %v: %s", path, got, want, a)
		}
	}
}

// user creates a user over REST and returns its number.
func (w *world) user(name string, fields ...any) string {
	w.Helper()
	body := map[string]any{"email": name + "@example.com", "username": name}
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := fields[i].(string)
		body[field] = fields[i+1]
	}
	return w.want(http.StatusOK, w.admin, http.MethodPost, usersPath, body).id()
}

// object returns the ScimUser with a userName; nil if there is none.
func (w *world) object(userName string) *v1alpha1.ScimUser {
	w.Helper()
	list := &v1alpha1.ScimUserList{}
	ok(w, kubernetes.Client.List(w.Context(), list, client.InNamespace(w.account)))
	for i := range list.Items {
		if list.Items[i].Spec.UserName == userName {
			return &list.Items[i]
		}
	}
	return nil
}

// apply applies a ScimUser as a GitOps tool does.
func (w *world) apply(name string, spec v1alpha1.ScimUserSpec) {
	w.Helper()
	u := &v1alpha1.ScimUser{Spec: spec}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ScimUser"))
	u.Namespace, u.Name = w.account, name
	//nolint:staticcheck // there are no apply configurations of these types
	ok(w, kubernetes.Client.Patch(w.Context(), u, client.Apply, client.FieldOwner("argocd-controller"), client.ForceOwnership))
	w.soon(func() error {
		if a := w.call(w.admin, http.MethodGet, "/api/scim/v2/Users?filter=userName+eq+%22"+spec.UserName+"%22", nil); fmt.Sprint(a.at("totalResults")) != "1" {
			return fmt.Errorf("not in the cache yet: %s", a)
		}
		return nil
	})
}

func (w *world) soon(try func() error) {
	w.Helper()
	apiclient.Soon(w, try)
}

// numberOf returns the number of the user with a userName, from the list.
func (w *world) numberOf(userName string) string {
	w.Helper()
	a := w.want(http.StatusOK, w.admin, http.MethodGet, usersPath, nil)
	items, _ := a.at("items").([]any)
	for i := range items {
		at := "items." + strconv.Itoa(i)
		if a.at(at+".username") == userName {
			return fmt.Sprint(a.at(at + ".id"))
		}
	}
	w.Fatalf("no user %s: %s", userName, a)
	return ""
}
