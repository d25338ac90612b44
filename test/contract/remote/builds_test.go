package remote_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// serves makes production an environment that the controller has rolled out: the build of a commit, with the
// condition Ready that has not changed since.
func (w *world) serves(commit string, generation int64, built time.Time, status metav1.ConditionStatus, reason, message string) {
	w.Helper()
	e := &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.deployment.Namespace, Name: "sales-production", UID: "e1", Generation: generation},
		Spec:       v1alpha1.EnvironmentSpec{Type: v1alpha1.EnvironmentProduction, ModelCommit: commit},
		Status: v1alpha1.EnvironmentStatus{
			LastBuildTime: ptr.To(metav1.NewTime(built)),
			CommonStatus: v1alpha1.CommonStatus{Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: generation,
				LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
			}}},
		},
	}
	_ = w.kube.Delete(context.Background(), e.DeepCopy()) // it may not exist
	w.must(w.kube.Create(context.Background(), e))
}

// buildStatus returns the build status of production.
func (w *world) buildStatus() *answer {
	w.Helper()
	return w.send(ada, "GET", "/api/v1/deployments/7/build-status", nil).is(200)
}

// The build status of a branch on a Git host is that of its newest commit, also before the controller has
// read it, and updatedAt is another one after each build.
func TestBuildStatusOfARemote(t *testing.T) {
	onBoth(t, func(w *world) {
		first, built := w.host.head("main"), time.Now().Add(-time.Hour)
		w.serves(first, 1, built, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "")
		w.buildStatus().is(200, `"status":"built"`, `"lastHash":"`+first+`"`, `"updatedAt":"`+built.UTC().Format(time.RFC3339))
		if n := w.host.count(""); n > 0 {
			t.Errorf("%d requests to the host: a deployment that is not changed over REST has no mirror", n)
		}
		w.enter(ada, "main")
		w.write(ada, "model/b.yml", "b\n").is(200)
		w.call(ada, "POST", "/commit", nil).is(200)
		second := w.host.head("main")
		tree := w.host.git("rev-parse", "main^{tree}")
		building := w.buildStatus().is(200, `"status":"building"`, `"lastHash":"`+second+`"`, `"filesHash":"`+tree+`"`)
		w.serves(second, 2, time.Now().Add(time.Minute), metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "")
		ready := w.buildStatus().is(200, `"status":"built"`, `"lastHash":"`+second+`"`, `"filesHash":"`+tree+`"`, `"buildJobId":2`)
		if building.get("updatedAt") == ready.get("updatedAt") || building.get("updatedAt") == nil {
			t.Errorf("updatedAt is %v while building, and %v afterwards", building.get("updatedAt"), ready.get("updatedAt"))
		}

		// Another client pushes: the mirror is behind the environment, and follows.
		third := w.host.push("main", map[string]string{"model/c.yml": "c\n"})
		w.serves(third, 3, time.Now().Add(2*time.Minute), metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "")
		w.buildStatus().is(200, `"status":"built"`, `"lastHash":"`+third+`"`, `"filesHash":"`+w.host.git("rev-parse", "main^{tree}")+`"`)
		fourth := w.host.push("main", map[string]string{"model/d.yml": "d\n"})
		w.serves(fourth, 4, time.Now().Add(3*time.Minute), metav1.ConditionFalse, v1alpha1.ReasonWorkloadsNotReady, "0 of 1")
		w.host.onRequest(func(rw http.ResponseWriter, _ *http.Request) bool {
			http.Error(rw, "down", http.StatusServiceUnavailable)
			return true
		})
		w.later(time.Minute)
		w.buildStatus().is(200, `"status":"building"`, `"lastHash":"`+fourth+`"`, `"errorText":"0 of 1"`)
	})
}

// Validation is that of the newest commit, also before the controller has read it, and names files by their
// paths.
func TestValidateARemote(t *testing.T) {
	onBoth(t, func(w *world) {
		w.must(w.kube.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.deployment.Namespace, Name: engine.CredentialsName("sales-production")},
			Data:       map[string][]byte{engine.KeyAPISecret: []byte("the api secret"), engine.KeySQLPassword: []byte("the password")},
		}))
		w.ask = func(context.Context, *v1alpha1.Environment, string) (int, io.ReadCloser, error) {
			return 200, io.NopCloser(strings.NewReader(`{"cubes":[{"name":"orders"}]}`)), nil
		}
		first := w.host.head("main")
		w.observed = map[string]string{"main": first}
		w.serves(first, 1, time.Now(), metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "")
		w.call(ada, "GET", "/data-model/validate", nil).is(200, `"valid":true`, `"cubesCount":1`, `"branchName":"main"`, `"mode":"production"`)
		w.call(ada, "GET", "/data-model/validate?branchName=gone", nil).is(404, "gone")

		w.enter(ada, "main")
		w.write(ada, "model/b.yml", "b\n").is(200)
		w.call(ada, "POST", "/commit", nil).is(200)
		second := w.host.head("main")
		done := make(chan *answer)
		go func() { done <- w.call(ada, "GET", "/data-model/validate", nil) }()
		// The environment has the old commit, which compiles. It is not the answer.
		w.serves(second, 2, time.Now(), metav1.ConditionFalse, v1alpha1.ReasonModelBroken, "The data model does not compile: Compile errors: | b.yml Errors: | x is bad")
		(<-done).is(200, `"valid":false`, `"errors":[{"fileName":"model/b.yml","message":"x is bad"}]`)

		d := &v1alpha1.Deployment{}
		w.must(w.kube.Get(t.Context(), client.ObjectKeyFromObject(w.deployment), d))
		d.Status.FailedModel = &v1alpha1.FailedModel{Commit: second, Reason: v1alpha1.ReasonModelBroken, Message: "Compile errors: | b.yml Errors: | y is bad"}
		w.must(w.kube.Update(t.Context(), d))
		w.deployment.Status = d.Status
		w.call(ada, "GET", "/data-model/validate", nil).is(200, `"valid":false`, `"message":"y is bad"`)
		w.buildStatus().is(200, `"status":"failed"`, `"lastHash":"`+second+`"`, "y is bad")

		w.host.onRequest(func(rw http.ResponseWriter, _ *http.Request) bool {
			http.Error(rw, "down", http.StatusServiceUnavailable)
			return true
		})
		w.later(time.Hour)
		w.observed["main"] = second
		w.call(ada, "GET", "/data-model/validate", nil).is(200, `"message":"y is bad"`)
	})
}
