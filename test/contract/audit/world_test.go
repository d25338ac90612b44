// Package audit_test tests the documented export of the audit log: each parameter, each precondition, and events during
// crashes. `quoin apiserver`, kube-apiserver and both databases are real processes, and tests kill them.
package audit_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
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

// databases are the supported databases. Each test runs on all of them.
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
	// server is the PostgreSQL server; nil for SQLite.
	server *postgrestest.Server
}

// onEach runs a test on each database, with its own account and `quoin apiserver`.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	for name := range databases {
		on(t, name, test)
	}
}

// on runs a test on one database.
func on(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Run(name, func(t *testing.T) {
		w := &world{t: t, account: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), database: databases[name](t)}
		w.createAccount()
		address, err := freeport.Address()
		ok(t, err)
		w.address, w.server = address, kubernetes.APIServer(filepath.Join(t.TempDir(), "apiserver.log"), address)
		// A URL may contain a password, and arguments are visible to all users of the machine.
		w.server.Env = []string{"DATABASE_URL=" + w.database.url}
		t.Cleanup(w.server.Kill)
		w.start()
		test(t, w)
	})
}

// world is an account with an audit log, and the `quoin apiserver` that serves it.
type world struct {
	t        *testing.T
	account  string
	database *database
	address  string
	server   *clustertest.Process
	client   *http.Client
	// admin is the token of a key with all permissions.
	admin string
	// isDown is set while the server or its database is killed and restarted.
	isDown atomic.Bool
	// started is a time before the first change.
	started time.Time
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) host() string { return w.account + ".example.com" }

// createAccount creates the account and its first key.
func (w *world) createAccount() {
	w.t.Helper()
	ok(w.t, kubernetes.Account(w.t.Context(), w.account, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(w.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}))
	w.admin = w.key("admin", v1alpha1.ApiKeySpec{})
	w.started = time.Now().Add(-time.Second)
}

// key creates an ApiKey object and returns its token.
func (w *world) key(name string, spec v1alpha1.ApiKeySpec) string {
	w.t.Helper()
	key, token, err := clustertest.Key(w.account, name, spec)
	ok(w.t, err)
	ok(w.t, kubernetes.Client.Create(w.t.Context(), key))
	return token
}

// start starts the server and waits until it serves the account.
func (w *world) start() {
	w.t.Helper()
	ok(w.t, w.server.Start())
	w.eventually(func() error {
		roots, err := kubernetes.Roots(w.t.Context())
		if err != nil {
			return err
		}
		if w.client == nil {
			w.client = &http.Client{Timeout: apiclient.Timeout, Transport: apiclient.Transport(roots, func() string { return w.address })}
		}
		// An export works once the database is open.
		if a := w.call(w.admin, http.MethodGet, "/api/v1/audit-logs/export", nil); a.status != http.StatusOK {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
}

func (w *world) eventually(try func() error) {
	w.t.Helper()
	if err := apiclient.Eventually(try); err != nil {
		w.t.Fatalf("%v; log of the server:\n%s", err, w.server.Log())
	}
}

// response is a response; its status is 0 if there was none.
type response struct {
	status int
	header http.Header
	text   string
}

func (a response) String() string { return fmt.Sprintf("%d %s", a.status, a.text) }

// field returns a text field of a JSON body.
func (a response) field(name string) string {
	var fields map[string]any
	_ = json.Unmarshal([]byte(a.text), &fields) // no fields if it is not JSON
	text, _ := fields[name].(string)
	return text
}

// call sends a request. It may be called from any goroutine.
func (w *world) call(token, method, path string, body any) response {
	got, err := apiclient.Request{
		Method: method, URL: "https://" + w.host() + path, Authorization: "Bearer " + token, Body: body, MediaType: "application/json",
	}.Send(context.Background(), w.client)
	if err != nil {
		return response{text: err.Error()}
	}
	return response{status: got.Status, header: got.Header, text: string(got.Body)}
}

// want sends a request and checks the status of the response.
func (w *world) want(status int, token, method, path string, body any) response {
	w.t.Helper()
	a := w.call(token, method, path, body)
	if a.status != status {
		w.t.Fatalf("%s %s: %s, want %d", method, path, a, status)
	}
	return a
}

// row is an event of an export, by column.
type row map[string]string

// export returns the events that pass the filters, except those of exports.
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

// concurrently calls work n times with concurrent callers.
func concurrently(n, callers int, work func(i int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range callers {
		group.Go(func() {
			for i := range next {
				work(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}
