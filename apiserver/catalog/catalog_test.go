package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// cached returns a Catalog of empty caches.
func cached(t *testing.T) *Catalog {
	t.Helper()
	informer := func(o client.Object) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, o, 0, toolscache.Indexers{})
	}
	informers := Informers{Deployments: informer(&v1alpha1.Deployment{}), Environments: informer(&v1alpha1.Environment{}), Branches: informer(&v1alpha1.Branch{})}
	if err := informers.addIndexes(); err != nil {
		t.Fatal(err)
	}
	return &Catalog{deployments: informers.Deployments.GetIndexer(), environments: informers.Environments.GetIndexer(), branches: informers.Branches.GetIndexer()}
}

func put(t *testing.T, store toolscache.Indexer, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := store.Update(o); err != nil {
			t.Fatal(err)
		}
	}
}

func meta(namespace, name, id string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelID: id}}
}

// TestIndexes: a deployment is found by its number, and its environments and branches by its name, in its namespace only, as the
// cache has them now; a number that two deployments have finds none in the cache.
func TestIndexes(t *testing.T) {
	c := cached(t)
	for _, namespace := range []string{"acme", "other"} {
		put(t, c.deployments, &v1alpha1.Deployment{ObjectMeta: meta(namespace, "finance", "1")}, &v1alpha1.Deployment{ObjectMeta: meta(namespace, "orders", "2")})
		for _, deployment := range []string{"finance", "orders"} {
			of := v1alpha1.LocalReference{Name: deployment}
			for _, id := range []string{"10", "9"} {
				put(t, c.environments, &v1alpha1.Environment{ObjectMeta: meta(namespace, deployment+"-"+id, id), Spec: v1alpha1.EnvironmentSpec{DeploymentRef: of}})
				put(t, c.branches, &v1alpha1.Branch{ObjectMeta: meta(namespace, deployment+"-"+id, id), Spec: v1alpha1.BranchSpec{DeploymentRef: of}})
			}
		}
	}
	put(t, c.deployments, &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "new"}})

	expect := func(id, want string) {
		t.Helper()
		found, err := c.cached("acme", id)
		name := ""
		if found != nil {
			name = found.Namespace + "/" + found.Name
		}
		if err != nil || name != want {
			t.Errorf("deployment %q: %q, %v, want %q", id, name, err, want)
		}
	}
	expect("1", "acme/finance")
	expect("2", "acme/orders")
	expect("3", "")
	expect("", "")

	orders := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "orders"}}
	environments, err := c.Environments(orders)
	branches, otherErr := c.Branches(orders)
	if err != nil || otherErr != nil {
		t.Fatal(err, otherErr)
	}
	want := []string{"acme/orders-9", "acme/orders-10"}
	if diff := cmp.Diff(want, names(environments)); diff != "" {
		t.Errorf("environments, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(want, names(branches)); diff != "" {
		t.Errorf("branches, -want +got:\n%s", diff)
	}

	put(t, c.deployments, &v1alpha1.Deployment{ObjectMeta: meta("acme", "new", "1")})
	expect("1", "")
	put(t, c.deployments, &v1alpha1.Deployment{ObjectMeta: meta("acme", "new", "3")})
	expect("1", "acme/finance")
	expect("3", "acme/new")
}

func names[O client.Object](objects []O) []string {
	all := make([]string, len(objects))
	for i, o := range objects {
		all[i] = o.GetNamespace() + "/" + o.GetName()
	}
	return all
}
