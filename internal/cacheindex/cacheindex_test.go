package cacheindex

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestFind: objects are found by each of their keys as they are now, in their namespace only; an object of another type is refused,
// and an index that does not exist is an error.
func TestFind(t *testing.T) {
	index := By(func(s *corev1.Service) []string {
		var keys []string
		for _, host := range s.Spec.ExternalIPs {
			keys = append(keys, Key(s.Namespace, host))
		}
		return keys
	})
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{"host": index})
	put := func(namespace, name string, hosts ...string) {
		t.Helper()
		if err := store.Update(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ExternalIPs: hosts}}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(key, want string) {
		t.Helper()
		found, err := Find[*corev1.Service](store, "host", key)
		name := ""
		for _, s := range found {
			name += s.Namespace + "/" + s.Name
		}
		if err != nil || name != want {
			t.Errorf("%s: %q, %v, want %q", key, name, err, want)
		}
	}
	put("a", "one", "x", "y")
	put("b", "two", "x")
	put("a", "none")
	expect("a/x", "a/one")
	expect("a/y", "a/one")
	expect("b/x", "b/two")
	expect("b/y", "")
	put("a", "one", "y")
	expect("a/x", "")

	if _, err := index(&corev1.Pod{}); err == nil {
		t.Error("a Pod is indexed as a Service")
	}
	if found, err := Find[*corev1.Service](store, "other", "a/x"); err == nil {
		t.Errorf("an index that does not exist: %v", found)
	}
}
