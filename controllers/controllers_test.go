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

// indexer notes which fields are indexed.
type indexer struct {
	fields map[string]client.IndexerFunc
	refuse error
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
	return i.refuse
}

// TestIndexesAreSelectable: a field by which the cache is asked is one by which the API
// server can be asked: a read that goes past the cache has the same answer.
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
	ours := 0
	for name := range i.fields {
		// Map functions ask the cache alone.
		if strings.Contains(name, "."+v1alpha1.Group+" ") && !strings.Contains(name, " "+requests.CacheOnly) {
			ours++
			if !selectable[name] {
				t.Errorf("%s is indexed, and not selectable", name)
			}
		}
	}
	if ours < 4 {
		t.Errorf("only %v are indexed", i.fields)
	}
	a := &v1alpha1.Account{Spec: v1alpha1.AccountSpec{Namespace: "acme"}}
	index := i.fields["Account."+v1alpha1.Group+" spec.namespace"]
	if got := index(a); !slices.Equal(got, []string{"acme"}) || index(&v1alpha1.Branch{}) != nil {
		t.Errorf("the account is found by %v", got)
	}
}

func TestIndexErrorsNameTheField(t *testing.T) {
	broken := errors.New("informer is started")
	err := addIndexes(t.Context(), &indexer{fields: map[string]client.IndexerFunc{}, refuse: broken})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "index *v1alpha1.Account by spec.namespace: ") {
		t.Errorf("got %v", err)
	}
}

// TestCacheKeepsOursOnly: of kinds that are not Quoin's own, the cache holds what Quoin made.
func TestCacheKeepsOursOnly(t *testing.T) {
	for obj, by := range CacheOptions().ByObject {
		if _, isPod := obj.(*corev1.Pod); isPod {
			if got := by.Label.String(); got != v1alpha1.LabelWarmUp {
				t.Errorf("of pods the cache holds %q", got)
			}
			continue
		}
		if by.Transform != nil {
			continue // see TestCacheKeepsWhenItChanged
		}
		if got := by.Label.String(); got != "app.kubernetes.io/managed-by=quoin" {
			t.Errorf("of %T the cache holds %q", obj, got)
		}
		if _, ok := obj.(v1alpha1.Object); ok {
			t.Errorf("%T is Quoin's own: users make them without labels", obj)
		}
	}
}

// TestCacheKeepsWhenItChanged: of managed fields the cache keeps only when users and groups
// were last modified.
func TestCacheKeepsWhenItChanged(t *testing.T) {
	modified := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for obj, by := range CacheOptions().ByObject {
		if _, ours := obj.(v1alpha1.Object); by.Transform == nil || !ours {
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
			t.Errorf("%T is Quoin's own: users make them without labels", obj)
		}
	}
}

// TestReady: not ready before the caches are filled, and the answer comes at once.
func TestReady(t *testing.T) {
	for _, synced := range []bool{true, false} {
		begin := time.Now()
		err := cachesSynced(&informertest.FakeInformers{Synced: &synced})(httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if (err == nil) != synced || time.Since(begin) > 10*time.Second {
			t.Errorf("caches filled: %v; got %v", synced, err)
		}
	}
}

// TestPauses: failures are tried again with growing pauses within bounds, each controller's
// on its own.
func TestPauses(t *testing.T) {
	one, other := controllerOptions(Config{Concurrency: 3}), controllerOptions(Config{Concurrency: 3})
	if one.MaxConcurrentReconciles != 3 || one.ReconciliationTimeout != reconcileTimeout {
		t.Errorf("options %+v", one)
	}
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "acme", Name: "sales"}}
	pauses := []time.Duration{}
	for range 12 {
		pauses = append(pauses, one.RateLimiter.When(request))
	}
	if pauses[0] != firstPause || !slices.IsSorted(pauses) || pauses[11] != longestPause {
		t.Errorf("pauses %v", pauses)
	}
	if got := other.RateLimiter.When(request); got != firstPause {
		t.Errorf("an object of the same name in another controller waits %s", got)
	}
}

// TestReadRefs: a repository over http:// is read only where that was allowed, with the
// credentials of the secret.
func TestReadRefs(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		asked = user + ":" + password
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	secret := map[string][]byte{"username": []byte("ada"), "password": []byte("lovelace")}
	cases := map[string]struct {
		insecure bool
		secret   map[string][]byte
		asked    string
		is       error
	}{
		"refused":          {false, nil, "", git.ErrInvalidURL},
		"without a secret": {true, nil, ":", git.ErrUnauthorized},
		"with a secret":    {true, secret, "ada:lovelace", git.ErrUnauthorized},
		"of no use":        {true, map[string][]byte{"username": []byte("ada")}, "", git.ErrInvalidCredentials},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			asked = ""
			_, _, err := readRefs(git.New(git.Options{AllowInsecure: tc.insecure}))(t.Context(), server.URL+"/model.git", tc.secret)
			if !errors.Is(err, tc.is) || asked != tc.asked {
				t.Errorf("got %v, want %v; asked with %q, want %q", err, tc.is, asked, tc.asked)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "lovelace") {
				t.Errorf("the error shows the password: %s", text)
			}
		})
	}
}
