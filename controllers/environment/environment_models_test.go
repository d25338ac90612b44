package environment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "model"}, Data: data}
}

// TestHashDependsOnFilesOnly, not on other fields of the ConfigMap.
func TestHashDependsOnFilesOnly(t *testing.T) {
	cm := configMap(map[string]string{"b.yml": "2", "a.yml": "1", "c.js": ""})
	files := filesOf(cm)
	if diff := cmp.Diff([]string{"a.yml", "b.yml", "c.js"}, files.Keys); diff != "" || files.ConfigMap != "model" {
		t.Errorf("files of %q (-want +got):\n%s", files.ConfigMap, diff)
	}
	// The hash is part of the inputs of existing environments: another one would restart them.
	if files.ContentHash != "a383182089b7a7e8" {
		t.Errorf("hash is %s", files.ContentHash)
	}
	cm.Labels, cm.ResourceVersion = map[string]string{"x": "y"}, "17"
	for range 20 {
		if again := filesOf(cm.DeepCopy()); again.ContentHash != files.ContentHash {
			t.Fatalf("the hash of the same files is %s and %s", files.ContentHash, again.ContentHash)
		}
	}
}

// TestHashesOfDifferentModelsDiffer, also if the concatenated names and contents are equal.
func TestHashesOfDifferentModelsDiffer(t *testing.T) {
	models := []map[string]string{
		nil, {"": ""}, {"a": ""}, {"": "a"}, {"a": "b"}, {"ab": ""}, {"a": "1:b"}, {"a": "", "b": ""}, {"a": "1:b0:"},
		{"a0:1:b": ""}, {"a": "0:", "b": ""}, {"1:a": "1:b"}, {"a": "b", "c": "d"}, {"a": "b1:c1:d"}, {"a": "bc", "d": ""},
	}
	order := rand.New(rand.NewPCG(1, 2))
	letters := "01:ab"
	word := func() string {
		text := make([]byte, order.IntN(4))
		for i := range text {
			text[i] = letters[order.IntN(len(letters))]
		}
		return string(text)
	}
	for range 2000 {
		model := map[string]string{}
		for range order.IntN(3) {
			model[word()] = word()
		}
		models = append(models, model)
	}
	hashes := map[string]string{}
	for _, model := range models {
		text := fmt.Sprintf("%q", model)
		if model == nil {
			text = fmt.Sprintf("%q", map[string]string{})
		}
		hash := filesOf(configMap(model)).ContentHash
		if other, exists := hashes[hash]; exists && other != text {
			t.Errorf("%s and %s have the same hash", text, other)
		}
		hashes[hash] = text
	}
}

// TestConfigMapIsReadOncePerVersion.
func TestConfigMapIsReadOncePerVersion(t *testing.T) {
	reads := 0
	var broken error
	server := fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(configMap(map[string]string{"a.yml": "1"})).Build()
	live := interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			if broken != nil {
				return broken
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	s := &scope{Client: kube.NewClient(server, live, FieldManager), Object: newEnvironment()}
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales"}}
	d.Spec.Model.ConfigMapRef = &v1alpha1.LocalReference{Name: "model"}
	var m models
	hash := func(wantReads int) string {
		t.Helper()
		reads = 0
		files, o := m.files(t.Context(), s, d)
		if o != nil || reads != wantReads {
			t.Fatalf("%d reads, want %d; %+v", reads, wantReads, o)
		}
		return files.ContentHash
	}
	first := hash(1)
	for _, s.Object.Name = range []string{s.Object.Name, "staging"} { // and another environment with the same model
		if again := hash(0); again != first {
			t.Errorf("the hash was %s and is %s", first, again)
		}
	}
	m.forget(client.ObjectKeyFromObject(newEnvironment()))
	changed := configMap(map[string]string{"a.yml": "2"})
	if err := server.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if second := hash(1); second == first {
		t.Error("the hash of another model is the same")
	}

	if err := server.Update(t.Context(), configMap(map[string]string{"a.yml": "3"})); err != nil {
		t.Fatal(err)
	}
	broken = errors.New("connection refused")
	_, o := m.files(t.Context(), s, d)
	if o == nil || !errors.Is(o.Err(), broken) {
		t.Errorf("got %+v, want the error", o)
	}
	if err := server.Delete(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	_, o = m.files(t.Context(), s, d)
	env := newEnvironment()
	reconciler.Summarise(env, *o)
	if c := env.Status.Conditions[0]; c.Reason != v1alpha1.ReasonModelNotFound || c.Message != `spec.model.configMapRef: config map "model" does not exist in namespace "acme"` {
		t.Errorf("condition %s: %s", c.Reason, c.Message)
	}
	d.Spec.Model.ConfigMapRef = nil
	if files, o := m.files(t.Context(), s, d); files != nil || o != nil || len(m.models)+len(m.of) > 0 {
		t.Errorf("without a config map: %v, %v, %v, %v", files, o, m.models, m.of)
	}
}
