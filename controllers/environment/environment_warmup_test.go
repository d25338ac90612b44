package environment

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// podWith returns an API pod of a template with the condition of its model.
func podWith(name, template, reason, message string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name, Labels: map[string]string{
		v1alpha1.LabelEnvironment: "sales-production", v1alpha1.LabelWarmUp: template,
	}}}
	status := corev1.ConditionFalse
	if reason == engine.WarmUpCompiled {
		status = corev1.ConditionTrue
	}
	if reason != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.PodModelCompiled, Status: status, Reason: reason, Message: message}}
	}
	return pod
}

// TestWarmUpInOutcome: the outcome by the conditions of the pods, and whether it is final.
func TestWarmUpInOutcome(t *testing.T) {
	waiting := reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "api: 0 of 2 pods are ready")
	overdue := reconciler.Stalled(v1alpha1.ReasonDeadlineExceeded, "api: 0 of 2 pods are ready")
	cases := map[string]struct {
		pods    []client.Object
		gate    string
		outcome reconciler.Outcome
		ready   string
		message string
		isFinal bool
	}{
		"no pods yet":        {nil, "new", waiting, "Unknown WorkloadsNotReady", "0 of 2", false},
		"no gate":            {[]client.Object{podWith("a", "new", engine.WarmUpBroken, "bad")}, "", waiting, "Unknown WorkloadsNotReady", "0 of 2", false},
		"does not compile":   {[]client.Object{podWith("a", "new", engine.WarmUpBroken, "orders.yml: bad")}, "new", waiting, "False ModelBroken", "does not compile: orders.yml: bad", true},
		"old template":       {[]client.Object{podWith("a", "old", engine.WarmUpBroken, "bad")}, "new", waiting, "Unknown WorkloadsNotReady", "0 of 2", false},
		"too slow":           {[]client.Object{podWith("a", "new", engine.WarmUpTooSlow, "not compiled within 15m0s")}, "new", overdue, "False ModelBroken", "15m0s", true},
		"compiles":           {[]client.Object{podWith("a", "new", engine.WarmUpCompiling, "x")}, "new", waiting, "Unknown WarmingUp", "0 of 2 pods are ready (the data model is being compiled)", false},
		"compiles, overdue":  {[]client.Object{podWith("a", "new", engine.WarmUpCompiling, "x")}, "new", overdue, "Unknown WarmingUp", "being compiled", false},
		"no answer":          {[]client.Object{podWith("a", "new", engine.WarmUpNoAnswer, "The pod returned status 403: Invalid token")}, "new", waiting, "Unknown WorkloadsNotReady", "Invalid token", false},
		"no answer, overdue": {[]client.Object{podWith("a", "new", engine.WarmUpNoAnswer, "silent")}, "new", overdue, "False ProgressDeadlineExceeded", "silent", false},
		"no secret":          {[]client.Object{podWith("a", "new", engine.WarmUpUnreadable, "bind ClusterRole")}, "new", waiting, "False CredentialsUnreadable", "bind ClusterRole", true},
		"one has, one has not": {[]client.Object{podWith("a", "new", engine.WarmUpCompiled, ""), podWith("b", "new", engine.WarmUpBroken, "bad")}, "new", waiting,
			"False ModelBroken", "bad", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			foreign := podWith("z", "new", engine.WarmUpBroken, "of another environment")
			foreign.Labels[v1alpha1.LabelEnvironment] = "hr-production"
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(tc.pods, foreign)...).Build()
			env := newEnvironment()
			workload := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales-production-api"}}
			if tc.gate != "" {
				workload.Spec.Template.Labels = map[string]string{v1alpha1.LabelWarmUp: tc.gate}
			}
			s := &scope{Client: kube.NewClient(c, c, FieldManager), Object: env}
			o, isFinal := (&environmentReconciler{}).warmUp(t.Context(), s, engine.Inputs{}, []client.Object{workload}, tc.outcome)
			reconciler.Summarise(env, o)
			ready := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionReady)
			if got := string(ready.Status) + " " + ready.Reason; got != tc.ready || isFinal != tc.isFinal || !strings.Contains(ready.Message, tc.message) {
				t.Errorf("%s: %s (final: %v); want %s: …%s… (%v)", got, ready.Message, isFinal, tc.ready, tc.message, tc.isFinal)
			}
		})
	}
}

// TestModelRejectedSelectsChangedRejections and no other changes of pods.
func TestModelRejectedSelectsChangedRejections(t *testing.T) {
	fresh, broken, worse := podWith("a", "new", "", ""), podWith("a", "new", engine.WarmUpBroken, "bad"), podWith("a", "new", engine.WarmUpBroken, "worse")
	compiled, elsewhere := podWith("a", "new", engine.WarmUpCompiled, ""), podWith("a", "new", engine.WarmUpBroken, "bad")
	elsewhere.Status.PodIP = "10.0.0.7"
	for name, tc := range map[string]struct {
		was, is *corev1.Pod
		want    bool
	}{
		"rejected":      {fresh, broken, true},
		"other message": {broken, worse, true},
		"fixed":         {broken, compiled, true},
		"compiles":      {fresh, compiled, false}, // its Deployment changes
		"other change":  {broken, elsewhere, false},
		"no condition":  {fresh, fresh, false},
		"unchanged":     {broken, broken, false},
	} {
		if got := modelRejected.Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if modelRejected.Create(event.CreateEvent{Object: broken}) || modelRejected.Delete(event.DeleteEvent{Object: broken}) {
		t.Error("creation and deletion are selected")
	}
	if got := ofPod(t.Context(), broken); len(got) != 1 || got[0].String() != "acme/sales-production" {
		t.Errorf("enqueues %v", got)
	}
}
