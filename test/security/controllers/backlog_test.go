// Package controllers_test attacks the controllers, which all tenants share, as a tenant with permissions in its own
// namespace.
package controllers_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/internal/fairqueue"
)

// TestBacklogOfOneAccount: a tenant creates, changes and deletes objects as fast as the Kubernetes API server allows, which
// is faster than the controller reconciles them. Another tenant relies on its change being reconciled next, however many
// objects of the first one wait, and while that one adds more.
func TestBacklogOfOneAccount(t *testing.T) {
	const backlog = 10_000
	q := fairqueue.New(2)("", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute))
	t.Cleanup(q.ShutDown)
	add := func(namespace string, i int) {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("d", i)}})
	}
	for i := range backlog {
		add("attacker", i)
	}
	for change := range 100 {
		add("victim", change)
		add("attacker", backlog+change)
		before := 0
		for {
			item, _ := q.Get()
			q.Done(item)
			if item.Namespace == "victim" {
				break
			}
			before++
		}
		if before > 1 {
			t.Fatalf("%d objects of the attacker are reconciled before change %d of the victim, want 1 at most", before, change)
		}
	}
}
