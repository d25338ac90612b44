package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// indexer records the indexed fields.
type indexer struct {
	fields map[string]client.IndexerFunc
	err    error
}

func (i *indexer) IndexField(_ context.Context, obj client.Object, field string, value client.IndexerFunc) error {
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return err
	}
	i.fields[gvk.Kind+"."+gvk.Group+" "+field] = value
	return i.err
}

// TestIndexesAreSelectable: an indexed field of the cache is a selectable field of the API server,
// so that uncached reads work too.
func TestIndexesAreSelectable(t *testing.T) {
	selectable := map[string]bool{}
	files, err := filepath.Glob(filepath.Join("..", "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			for _, field := range version.SelectableFields {
				selectable[crd.Spec.Names.Kind+"."+crd.Spec.Group+" "+strings.TrimPrefix(field.JSONPath, ".")] = true
			}
		}
	}
	i := &indexer{fields: map[string]client.IndexerFunc{}}
	if err := addIndexes(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	own := 0
	for name := range i.fields {
		// Map functions read the cache only.
		if strings.Contains(name, "."+v1alpha1.Group+" ") && !strings.Contains(name, " "+requests.CacheOnly) {
			own++
			if !selectable[name] {
				t.Errorf("%s is indexed, and not selectable", name)
			}
		}
	}
	if own < 4 {
		t.Errorf("only %v are indexed", i.fields)
	}
	a := &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Namespace: "acme"}}
	index := i.fields["Account."+v1alpha1.Group+" spec.namespace"]
	if got := index(a); !slices.Equal(got, []string{"acme"}) || index(&v1alpha1.Branch{}) != nil {
		t.Errorf("the account is indexed by %v", got)
	}
}

func TestIndexErrorsNameTheField(t *testing.T) {
	broken := errors.New("informer is started")
	err := addIndexes(t.Context(), &indexer{fields: map[string]client.IndexerFunc{}, err: broken})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "index *v1alpha1.Account by spec.namespace: ") {
		t.Errorf("got %v", err)
	}
}

// TestCacheHoldsManagedObjectsOnly of built-in kinds.
func TestCacheHoldsManagedObjectsOnly(t *testing.T) {
	for obj, by := range CacheOptions().ByObject {
		if _, isPod := obj.(*corev1.Pod); isPod {
			if got := by.Label.String(); got != v1alpha1.LabelWarmUp {
				t.Errorf("of pods the cache holds %q", got)
			}
			continue
		}
		if by.Transform != nil {
			continue // see TestCacheKeepsModificationTimes
		}
		if got := by.Label.String(); got != "app.kubernetes.io/managed-by=quoin" {
			t.Errorf("of %T the cache holds %q", obj, got)
		}
		if _, ok := obj.(v1alpha1.Object); ok {
			t.Errorf("%T is a kind of Quoin, whose objects have no labels", obj)
		}
	}
}

// TestCacheOfNamespaces: Kubernetes' kinds are read in the given namespaces only, Quoin's in all.
func TestCacheOfNamespaces(t *testing.T) {
	found := 0
	for obj, by := range CacheOptions("a", "b").ByObject {
		_, own := obj.(v1alpha1.Object)
		if _, a := by.Namespaces["a"]; own && by.Namespaces != nil || !own && (!a || len(by.Namespaces) != 2) {
			t.Errorf("of %T the cache holds the namespaces %v", obj, by.Namespaces)
		}
		if !own {
			found++
		}
	}
	if want := 8; found != want { // with ConfigMaps, which have no options otherwise
		t.Errorf("%d kinds of Kubernetes, want %d", found, want)
	}
}

// TestWithin: objects in other namespaces are ignored, those without a namespace are not.
func TestWithin(t *testing.T) {
	var seen []string
	next := reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
		seen = append(seen, r.Namespace)
		return reconcile.Result{}, nil
	})
	for _, namespaces := range [][]string{{"a", "b"}, nil} {
		for _, namespace := range []string{"", "a", "c"} {
			request := reconcile.Request{}
			request.Namespace = namespace
			if _, err := within(namespaces, next).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []string{"", "a", "", "a", "c"}; !slices.Equal(seen, want) {
		t.Errorf("reconciled %q, want %q", seen, want)
	}
}

// TestCacheKeepsModificationTimes: of managed fields the cache keeps only the modification times
// of users and groups.
func TestCacheKeepsModificationTimes(t *testing.T) {
	modified := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for obj, by := range CacheOptions().ByObject {
		if _, own := obj.(v1alpha1.Object); by.Transform == nil || !own {
			continue
		}
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Time: &modified, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)},
		}})
		if _, err := by.Transform(obj); err != nil {
			t.Fatal(err)
		}
		if got := lastmodified.Of(obj); !got.Equal(modified.Time) || obj.GetManagedFields()[0].FieldsV1 != nil {
			t.Errorf("%T: %s, %v", obj, got, obj.GetManagedFields())
		}
		if by.Label != nil || by.Field != nil {
			t.Errorf("%T is a kind of Quoin, whose objects have no labels", obj)
		}
	}
}

// TestReadinessWaitsForCaches without blocking the probe.
func TestReadinessWaitsForCaches(t *testing.T) {
	for _, synced := range []bool{true, false} {
		begin := time.Now()
		err := cachesSynced(&informertest.FakeInformers{Synced: &synced})(httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if (err == nil) != synced || time.Since(begin) > 10*time.Second {
			t.Errorf("caches synced: %v; got %v", synced, err)
		}
	}
}

// TestBackoff: failures are retried with bounded backoff, separately for each controller.
func TestBackoff(t *testing.T) {
	one, other := controllerOptions(Config{Concurrency: 3}), controllerOptions(Config{Concurrency: 3})
	if one.MaxConcurrentReconciles != 3 || one.ReconciliationTimeout != reconcileTimeout {
		t.Errorf("options %+v", one)
	}
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "acme", Name: "sales"}}
	delays := []time.Duration{}
	for range 12 {
		delays = append(delays, one.RateLimiter.When(request))
	}
	if delays[0] != minBackoff || !slices.IsSorted(delays) || delays[11] != maxBackoff {
		t.Errorf("delays %v", delays)
	}
	if got := other.RateLimiter.When(request); got != minBackoff {
		t.Errorf("an object of the same name in another controller waits %s", got)
	}
}

// TestQueuesTakeTurns between accounts, of which each has half of the workers.
func TestQueuesTakeTurns(t *testing.T) {
	options := controllerOptions(Config{Concurrency: 4})
	queue := options.NewQueue("", options.RateLimiter)
	defer queue.ShutDown()
	for _, key := range []client.ObjectKey{{Namespace: "acme", Name: "1"}, {Namespace: "acme", Name: "2"}, {Namespace: "globex", Name: "1"}, {Namespace: "acme", Name: "3"}} {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
	var order []string
	for range 3 {
		next, _ := queue.Get()
		order = append(order, next.String())
	}
	if want := []string{"acme/1", "globex/1", "acme/2"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	if n := queue.Len(); n != 0 {
		t.Errorf("%d more of an account may begin", n)
	}
}

// TestReadRefsUsesCredentials of the secret, and http:// only if it is allowed.
func TestReadRefsUsesCredentials(t *testing.T) {
	var credentials string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		credentials = user + ":" + password
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	secret := map[string][]byte{"username": []byte("ada"), "password": []byte("lovelace")}
	cases := map[string]struct {
		insecure    bool
		secret      map[string][]byte
		credentials string
		is          error
	}{
		"http rejected":    {false, nil, "", git.ErrInvalidURL},
		"without a secret": {true, nil, ":", git.ErrUnauthorized},
		"with a secret":    {true, secret, "ada:lovelace", git.ErrUnauthorized},
		"invalid secret":   {true, map[string][]byte{"username": []byte("ada")}, "", git.ErrInvalidCredentials},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			credentials = ""
			_, _, err := readRefs(git.New(git.Options{AllowInsecure: tc.insecure}))(t.Context(), server.URL+"/model.git", tc.secret)
			if !errors.Is(err, tc.is) || credentials != tc.credentials {
				t.Errorf("got %v, want %v; credentials %q, want %q", err, tc.is, credentials, tc.credentials)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "lovelace") {
				t.Errorf("the error shows the password: %s", text)
			}
		})
	}
}
