package deployments

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// A creation waits for the production environment while there can be one, and not forever.
func TestWaitForProductionEnds(t *testing.T) {
	stalled := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", ResourceVersion: "2"}}
	stalled.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}}
	listed := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "acme", Name: "sales-production", ResourceVersion: "3", Labels: map[string]string{v1alpha1.LabelID: "1"},
	}}
	listed.Spec.Type, listed.Status.APICredentials = v1alpha1.EnvironmentProduction, &v1alpha1.APICredentials{}
	for name, c := range map[string]struct {
		event any // after a second
		want  time.Duration
	}{
		"listed":              {listed, time.Second},
		"cannot be":           {stalled, time.Second},
		"no controller":       {nil, productionTimeout},
		"without credentials": {&v1alpha1.Environment{ObjectMeta: listed.ObjectMeta}, productionTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := runtime.NewScheme()
				if err := v1alpha1.AddToScheme(scheme); err != nil {
					t.Fatal(err)
				}
				reader := fake.NewClientBuilder().WithScheme(scheme).Build()
				k := kube.NewClient(reader, reader, "test")
				environments := k.Tracker().Observer(k.KindOf(&v1alpha1.Environment{}))
				deployments := k.Tracker().Observer(k.KindOf(&v1alpha1.Deployment{}))
				go func() {
					time.Sleep(time.Second)
					switch o := c.event.(type) {
					case *v1alpha1.Environment:
						environments(nil, o)
					case *v1alpha1.Deployment:
						deployments(nil, o)
					}
				}()
				d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales"}}
				w := k.Expect(d)
				defer w.Stop()
				begin := time.Now()
				(&api{Options: Options{Kube: k}}).waitForProduction(t.Context(), d, w)
				if waited := time.Since(begin); waited != c.want {
					t.Errorf("waited %s, want %s", waited, c.want)
				}
			})
		})
	}
}
