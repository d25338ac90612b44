package deployments

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/internal/freshness"
)

// productionTimeout is how long a creation waits for the production environment.
const productionTimeout = 10 * time.Second

// waitForProduction waits until the production environment of a new deployment is listed, so that a
// client can use it at once. It returns earlier if the deployment cannot get one without a change,
// which its conditions explain, and after productionTimeout: the deployment is created in any case.
// w waits for the deployment.
func (a *api) waitForProduction(ctx context.Context, d *v1alpha1.Deployment, w *freshness.Wait) {
	production := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name)}}
	events := a.Kube.Expect(production)
	defer events.Stop()
	// The environment may have been listed before Expect.
	if err := a.Kube.Get(ctx, client.ObjectKeyFromObject(production), production); err == nil && isNumberedAndListed(production) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var stalled sync.WaitGroup
	stalled.Go(func() {
		defer cancel()
		_ = w.Until(ctx, productionTimeout, isStalled)
	})
	_ = events.Until(ctx, productionTimeout, func(o metav1.Object, deleted bool) bool {
		e, ok := o.(*v1alpha1.Environment)
		return ok && !deleted && isNumberedAndListed(e)
	})
	cancel()
	stalled.Wait()
}

// isNumberedAndListed reports whether the list of environments has an environment.
func isNumberedAndListed(e *v1alpha1.Environment) bool { return catalog.NumberOf(e) > 0 && isListed(e) }

// isStalled reports whether a deployment is deleted, or needs a change to get an environment.
func isStalled(o metav1.Object, deleted bool) bool {
	d, ok := o.(*v1alpha1.Deployment)
	return deleted || ok && meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionStalled)
}
