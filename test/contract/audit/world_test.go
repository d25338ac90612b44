// Package audit_test reads like the documented export of the audit log: each parameter, each
// precondition, and what becomes of events when something dies. `quoin apiserver` is a process,
// Kubernetes' API server and both databases are real, and tests kill them.
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
	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
	"github.com/quoin-dev/quoin/test/contract/internal/clustertest"
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
		w := &world{t: t, account: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), database: databases[name](t)}
		w.furnish()
		address, err := clustertest.FreeAddress()
		ok(t, err)
		w.address, w.front = address, kubernetes.FrontEnd(filepath.Join(t.TempDir(), "apiserver.log"), address)
		// A URL with a password does not belong in arguments, which everybody on the machine sees.
		w.front.Env = []string{"DATABASE_URL=" + w.database.url}
		t.Cleanup(w.front.Kill)
		w.start()
		test(t, w)
	})
}

// world is an account whose audit log is on, and the front end that answers for it.
type world struct {
	t        *testing.T
	account  string
	database *database
	address  string
	front    *clustertest.Process
	client   *http.Client
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
	ok(w.t, kubernetes.Account(w.t.Context(), w.account, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(w.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}))
	w.admin = w.key("admin", v1alpha1.ApiKeySpec{})
	w.started = time.Now().Add(-time.Second)
}

// key makes a key as an administrator does with kubectl, and returns its token.
func (w *world) key(name string, spec v1alpha1.ApiKeySpec) string {
	w.t.Helper()
	key, token, err := clustertest.Key(w.account, name, spec)
	ok(w.t, err)
	ok(w.t, kubernetes.Client.Create(w.t.Context(), key))
	return token
}

// start starts the front end and waits until it answers for the account.
func (w *world) start() {
	w.t.Helper()
	ok(w.t, w.front.Start())
	w.eventually(func() error {
		roots, err := kubernetes.Roots(w.t.Context())
		if err != nil {
			return err
		}
		if w.client == nil {
			w.client = &http.Client{Timeout: apiclient.Patience, Transport: apiclient.Transport(roots, func() string { return w.address })}
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
		w.t.Fatalf("%v; the front end's log:\n%s", err, w.front.Logged())
	}
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
	got, err := apiclient.Request{
		Method: method, URL: "https://" + w.host() + path, Authorization: "Bearer " + token, Body: body, MediaType: "application/json",
	}.Send(context.Background(), w.client)
	if err != nil {
		return answer{text: err.Error()}
	}
	return answer{status: got.Status, header: got.Header, text: string(got.Body)}
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
