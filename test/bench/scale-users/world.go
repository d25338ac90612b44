package main

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/etcd"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

const (
	namespace = "bench"
	host      = "bench.example.com"
	pageSize  = 100
)

// world is an API server with a number of users, and the processes of Quoin.
type world struct {
	options
	*figures
	server *controlplane.APIServer
	quoin  *controlplane.Quoin
	token  string
	// names are those of the objects of the users, by number.
	names []string
}

func newWorld(o options, server *controlplane.APIServer, f *figures) *world {
	server.StartTimeout = o.timeout
	return &world{options: o, figures: f, server: server, names: make([]string, f.n)}
}

// measure runs the steps in order. Each uses the objects of the previous ones.
func (w *world) measure(ctx context.Context) error {
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"creating a user over SCIM", w.createUser},
		{"copying it", w.copyUser},
		{"measuring etcd", w.measureEtcd},
		{"starting quoin apiserver", w.start},
		{"looking up users", w.lookUp},
		{"reading pages", w.readPages},
		{"starting the controller", w.startController},
	} {
		measure.Progress("  %s", step.name)
		w.server.Settle(ctx)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// createUser creates the account, and a user as the controller and SCIM store it.
func (w *world) createUser(ctx context.Context) error {
	key, err := apikey.New(cryptorand.Reader)
	if err != nil {
		return err
	}
	hash := key.Hash()
	w.token = key.Reveal()
	if err := w.server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: host, Namespace: namespace}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Spec: v1alpha1.ApiKeySpec{
			ScimProfile: "RFC", Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}, Token: &hash,
		}},
	); err != nil {
		return err
	}
	controller, err := w.server.StartMetered(ctx, "controller", w.options.quoin, "--quoin-image=quoin:bench", "--leader-elect=false")
	if err != nil {
		return err
	}
	defer controller.Stop()
	if err := w.startQuoin(ctx); err != nil {
		return err
	}
	defer w.quoin.Stop()
	w.server.Settle(ctx)
	w.empty = w.server.Memory(w.quoin.Name)
	text, err := w.send(ctx, http.MethodPost, "/Users", withNumber(user, 0), http.StatusCreated)
	if err != nil {
		return err
	}
	created := struct{ ID string }{}
	if err := json.Unmarshal(text, &created); err != nil {
		return err
	}
	w.names[0] = created.ID
	return process.Await(ctx, "the controller", 300, 100*time.Millisecond, func() error {
		stored := &v1alpha1.ScimUser{}
		if err := w.server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: created.ID}, stored); err != nil {
			return err
		}
		if stored.Status.ObservedGeneration != stored.Generation {
			return errors.New("the user has not been reconciled")
		}
		return nil
	})
}

// startQuoin starts `quoin apiserver`, and waits until it has all users.
func (w *world) startQuoin(ctx context.Context) (err error) {
	began := time.Now()
	w.quoin, err = w.server.StartQuoin(ctx, w.options.quoin, controlplane.Unlimited, func(q *controlplane.Quoin) error {
		w.quoin = q
		_, err := w.send(ctx, http.MethodGet, "/Users?count=1", nil, http.StatusOK)
		return err
	})
	w.started = time.Since(began)
	return err
}

// start starts `quoin apiserver` with all users.
func (w *world) start(ctx context.Context) error {
	if err := w.startQuoin(ctx); err != nil {
		return err
	}
	found, err := w.list(ctx, "/Users?count=1")
	if err == nil && found.TotalResults != w.n {
		err = fmt.Errorf("there are %d users, want %d", found.TotalResults, w.n)
	}
	w.server.Settle(ctx)
	w.full = w.server.Memory(w.quoin.Name)
	w.live = w.quoin.Metric("go_memstats_next_gc_bytes") / 2 / (1 << 20) // twice the live heap
	w.kubeAPIServerMemory, w.etcdMemory = w.server.Memory("kube-apiserver"), w.server.Memory("etcd")
	return err
}

// measureEtcd measures the size of users and their claims.
func (w *world) measureEtcd(ctx context.Context) error {
	e := etcd.Server{URL: w.server.Etcd()}
	var err error
	if w.kinds, err = e.Kinds(ctx, users, claimed); err != nil {
		return err
	}
	w.database, _, err = e.Size(ctx)
	return err
}

// startController measures the controller with all users.
func (w *world) startController(ctx context.Context) error {
	if w.n > w.controllerUsers {
		return nil
	}
	began := time.Now()
	controller, err := w.server.StartMetered(ctx, "controller", w.options.quoin, "--quoin-image=quoin:bench", "--leader-elect=false")
	if err != nil {
		return err
	}
	err = process.Await(ctx, "the controller", int(w.timeout/time.Second), time.Second, func() error {
		text, err := controller.Metrics(ctx)
		if err != nil {
			return err
		}
		reconciled := 0.0
		for labels, count := range measure.Samples(text, "controller_runtime_reconcile_total") {
			if labels.Value("controller") == "scimuser" {
				reconciled += count
			}
		}
		if reconciled < float64(w.n) {
			return fmt.Errorf("%.0f of %d users are reconciled", reconciled, w.n)
		}
		return nil
	})
	w.controllerSteady = time.Since(began)
	w.controllerMemory = w.server.Memory(controller.Name)
	return err
}

// lookUp looks up users by attributes that identify them, and gets users from kube-apiserver, in random order. Each is a user of
// its own: the second request for an object would find it in the caches of etcd, and with many users the first one does not.
func (w *world) lookUp(ctx context.Context) error {
	numbers := rand.New(rand.NewPCG(1, 2))
	w.byAttribute = map[string]measure.Times{}
	kinds := []func(n int) error{
		func(n int) error { return w.lookUpBy(ctx, "userName", "user."+number+"@bench.example.com", n) },
		func(n int) error { return w.lookUpBy(ctx, "externalId", "00u"+number, n) },
		func(n int) error { return w.get(ctx, n) },
	}
	for range w.lookups {
		for _, kind := range numbers.Perm(len(kinds)) {
			if err := kinds[kind](numbers.IntN(w.n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookUpBy looks up a user over SCIM by an attribute, whose value has the number of the user.
func (w *world) lookUpBy(ctx context.Context, attribute, value string, n int) error {
	query := "/Users?filter=" + url.QueryEscape(fmt.Sprintf(`%s eq "%s"`, attribute, withNumber(value, n)))
	began := time.Now()
	found, err := w.list(ctx, query)
	took := time.Since(began)
	if err != nil {
		return err
	}
	if len(found.Resources) != 1 || found.Resources[0].ID != w.names[n] {
		return fmt.Errorf("%s of user %d finds %v, want %s", attribute, n, found.Resources, w.names[n])
	}
	w.byAttribute[attribute] = w.byAttribute[attribute].With(measure.Times{Each: []time.Duration{took}, Took: took})
	return nil
}

// get gets a user from kube-apiserver.
func (w *world) get(ctx context.Context, n int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.Namespaced(namespace)+"/scimusers/"+w.names[n], nil)
	if err != nil {
		return err
	}
	took, err := measure.Exchange(w.server.HTTP, request)
	if err != nil {
		return err
	}
	w.raw = w.raw.With(measure.Times{Each: []time.Duration{took}, Took: took})
	return nil
}

// readPages reads pages at the beginning, in the middle and at the end, and by cursor.
func (w *world) readPages(ctx context.Context) error {
	page := func(path string) (listResponse, error) {
		began := time.Now()
		found, err := w.list(ctx, path)
		took := time.Since(began)
		if err == nil && len(found.Resources) != pageSize {
			err = fmt.Errorf("GET %s: %d resources, want %d", path, len(found.Resources), pageSize)
		}
		w.byPage = w.byPage.With(measure.Times{Each: []time.Duration{took}, Took: took})
		return found, err
	}
	cursor := ""
	for range w.pages {
		for _, start := range []int{1, w.n / 2, w.n - pageSize + 1} {
			if _, err := page(fmt.Sprintf("/Users?startIndex=%d&count=%d", start, pageSize)); err != nil {
				return err
			}
		}
		found, err := page(fmt.Sprintf("/Users?count=%d&cursor=%s", pageSize, url.QueryEscape(cursor)))
		if err != nil {
			return err
		}
		cursor = found.NextCursor
	}
	return nil
}

// listResponse has the attributes of a ListResponse that the bench reads.
type listResponse struct {
	TotalResults int
	Resources    []struct{ ID string }
	NextCursor   string
}

func (w *world) list(ctx context.Context, path string) (l listResponse, err error) {
	text, err := w.send(ctx, http.MethodGet, path, nil, http.StatusOK)
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(text, &l)
}

// send sends a request to the SCIM service.
func (w *world) send(ctx context.Context, method, path string, body []byte, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, w.quoin.URL+"/api/scim/v2"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Host = host
	request.Header.Set("Authorization", "Bearer "+w.token)
	if body != nil {
		request.Header.Set("Content-Type", "application/scim+json")
	}
	response, err := w.quoin.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, text)
	}
	return text, err
}
