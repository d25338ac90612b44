package gateway_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway"
	"github.com/quoin-dev/quoin/internal/apitest"
)

// another returns the world of another account, with the same gateway.
func (w *world) another(t *testing.T) *world {
	t.Helper()
	other := *w
	other.kube, other.account = apitest.Direct(t)
	other.create(&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: other.account}, Spec: v1alpha1.AccountSpec{
		Host: v1alpha1.Host(other.account + ".example.com"), Namespace: other.account,
	}})
	return &other
}

// TestManyDeploymentsOfOneAccount: a tenant creates many deployments, and sends each as many requests as it may have in
// progress, to pods that do not answer. Together these are more than the gateway serves at once. They hold at most half of
// the places of the gateway, the rest gets 429; other accounts rely on the other half.
func TestManyDeploymentsOfOneAccount(t *testing.T) {
	t.Parallel()
	const total, perDeployment, deployments = 20, 10, 3
	w := newWorld(t, func(c *gateway.Config) { c.MaxRequests, c.MaxInFlight = total, perDeployment })
	hostile := w.another(t)
	w.deploy(victim, w.pod(func(http.ResponseWriter, *http.Request) {}), w.listenAsPod().Addr())
	p := &places{release: make(chan struct{})}
	pod := w.pod(p.ServeHTTP)
	for i := range deployments {
		hostile.deploy(fmt.Sprintf("hostile%d", i), pod, w.listenAsPod().Addr())
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range deployments * perDeployment {
		all.Go(func() {
			status, _ := hostile.get(hostile.client(attacker), fmt.Sprintf("hostile%d", i%deployments), "/v1/slow")
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	defer all.Wait()
	defer close(p.release)
	w.eventually("each request holds a place or is refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return p.count()+statuses[http.StatusTooManyRequests]+statuses[http.StatusServiceUnavailable] == deployments*perDeployment
	})
	if held := p.count(); held > total/2 {
		t.Errorf("the account holds %d of %d places, at most half is allowed", held, total)
	}
	if status, body := w.get(w.client(customer), victim, "/v1/load"); status != http.StatusOK {
		t.Errorf("a user of another account: %d %s", status, body)
	}
}
