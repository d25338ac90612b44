package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// world is an account with a deployment, a model endpoint and an agent on a real Kubernetes API server, and the reconciler of
// agents. The account and the endpoint have the name of the namespace.
type world struct {
	t         *testing.T
	api       client.WithWatch
	namespace string
	events    *events.FakeRecorder
	r         *reconciler.Reconciler[*v1alpha1.Agent]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	api, namespace := apitest.Direct(t)
	w := &world{t: t, api: api, namespace: namespace}
	w.create(&v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.AccountSpec{Host: v1alpha1.Host(namespace + ".example.com"), Namespace: namespace},
	})
	w.create(w.deployment("sales"))
	w.create(w.endpoint())
	w.endpointIs(metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.create(w.agent("analyst"))
	w.restart(api)
	return w
}

// restart replaces the reconciler by a new one. Its clock is a minute later, when all objects have been applied.
func (w *world) restart(api client.WithWatch) {
	k := kube.NewClient(api, api, "quoin-test")
	w.events = events.NewFakeRecorder(100)
	w.r = New(k, w.events, clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute)), ids.New(k))
}

func (w *world) deployment(name string) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "stable", Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: "https://git.example.com/model.git"}}},
	}
}

func (w *world) endpoint() *v1alpha1.ModelEndpoint {
	return &v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: v1alpha1.ModelEndpointSpec{Protocol: v1alpha1.ModelOpenAI, Model: "gpt-x"}}
}

func (w *world) agent(name string) *v1alpha1.Agent {
	return &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.AgentSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: w.namespace},
	}}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.api.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(o client.Object) {
	w.t.Helper()
	if err := w.api.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// change changes an object with a merge patch.
func (w *world) change(o client.Object, patch string) {
	w.t.Helper()
	if err := w.api.Patch(w.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

// endpointIs sets the condition Ready of the endpoint.
func (w *world) endpointIs(status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	e := w.endpoint()
	if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
		w.t.Fatal(err)
	}
	meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "hidden-secret-name"})
	if err := w.api.Status().Update(w.t.Context(), e); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(name string) *v1alpha1.Agent {
	w.t.Helper()
	a := &v1alpha1.Agent{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, a); err != nil {
		w.t.Fatal(err)
	}
	return a
}

// reconcile reconciles an agent and returns it.
func (w *world) reconcile(name string) *v1alpha1.Agent {
	w.t.Helper()
	if _, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: name}}); err != nil {
		w.t.Fatal(err)
	}
	return w.get(name)
}

// want reconciles an agent and checks its conditions: those of kstatus, and the one that is not Ready.
func (w *world) want(name, status, reason, message, abnormal string) *v1alpha1.Agent {
	w.t.Helper()
	a := w.reconcile(name)
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, message) || c.ObservedGeneration != a.Generation {
		w.t.Errorf("%s: Ready is %+v, want %s, %s: %s", name, c, status, reason, message)
	}
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if found := meta.IsStatusConditionTrue(a.Status.Conditions, kind); found != (kind == abnormal) {
			w.t.Errorf("%s: %s is %v", name, kind, found)
		}
	}
	if strings.Contains(fmt.Sprint(a.Status), "hidden") {
		w.t.Errorf("%s: the status has the message of the endpoint", name)
	}
	again := w.reconcile(name)
	if again.ResourceVersion != a.ResourceVersion {
		w.t.Errorf("%s: another reconciliation writes", name)
	}
	return again
}

func TestAgentIsReady(t *testing.T) {
	w := newWorld(t)
	a := w.want("analyst", "True", "Succeeded", "answers messages", "")
	if a.Status.ID != 1 || a.Labels[v1alpha1.LabelID] != "1" || a.Status.ObservedGeneration != a.Generation {
		t.Errorf("the status is %+v", a.Status)
	}
	if ledger := apitest.IssuedIDs(t, w.api, w.namespace); ledger != "agents=1" {
		t.Errorf("the ledger is %q", ledger)
	}
}

// TestIDs: each agent has its own, and the ID of a deleted one is not issued again.
func TestIDs(t *testing.T) {
	w := newWorld(t)
	w.reconcile("analyst")
	w.create(w.agent("second"))
	if a := w.want("second", "True", "Succeeded", "", ""); a.Status.ID != 2 {
		t.Errorf("the ID is %d", a.Status.ID)
	}
	w.delete(w.get("second"))
	w.create(w.agent("third"))
	if a := w.want("third", "True", "Succeeded", "", ""); a.Status.ID != 3 {
		t.Errorf("the ID is %d", a.Status.ID)
	}
	copied := w.agent("copy")
	copied.Labels = map[string]string{v1alpha1.LabelID: "1"}
	w.create(copied)
	w.want("copy", "False", "InvalidSpec", `label platform.quoin.dev/id has the ID of Agent "analyst"`, "Stalled")
	restored := w.agent("restored")
	restored.Labels = map[string]string{v1alpha1.LabelID: "7"}
	w.create(restored)
	if a := w.want("restored", "True", "Succeeded", "", ""); a.Status.ID != 7 {
		t.Errorf("the ID of a restored agent is %d", a.Status.ID)
	}
	if ledger := apitest.IssuedIDs(t, w.api, w.namespace); ledger != "agents=7" {
		t.Errorf("the ledger is %q", ledger)
	}
}

// TestReferences: what an agent reports of what it refers to, and that it follows changes.
func TestReferences(t *testing.T) {
	w := newWorld(t)
	w.reconcile("analyst")

	w.delete(w.deployment("sales"))
	w.want("analyst", "False", "DeploymentNotFound", `spec.deploymentRef: Deployment "sales" does not exist`, "Stalled")
	w.create(w.deployment("sales"))
	w.want("analyst", "True", "Succeeded", "", "")

	w.endpointIs(metav1.ConditionFalse, v1alpha1.ReasonModelSecretUnreadable)
	w.want("analyst", "False", "ModelEndpointNotReady", "is not ready: ModelSecretUnreadable", "Reconciling")
	w.endpointIs(metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.want("analyst", "True", "Succeeded", "", "")

	w.change(w.endpoint(), `{"spec":{"allowedAccounts":["other"]}}`)
	w.want("analyst", "False", "ModelEndpointNotAllowed", `does not allow account "`+w.namespace+`"`, "Stalled")
	w.change(w.endpoint(), `{"spec":{"allowedAccounts":["other","`+w.namespace+`"]}}`)
	w.want("analyst", "True", "Succeeded", "", "")

	w.delete(w.endpoint())
	a := w.want("analyst", "False", "ModelEndpointNotFound", `ModelEndpoint "`+w.namespace+`" does not exist`, "Stalled")
	if a.Status.ID != 1 {
		t.Errorf("the ID is %d", a.Status.ID)
	}
}

// TestReferencesThatAreAppliedTogether: an agent that is younger than what it refers to is not stalled.
func TestReferencesThatAreAppliedTogether(t *testing.T) {
	w := newWorld(t)
	k := kube.NewClient(w.api, w.api, "quoin-test")
	w.r = New(k, w.events, clocktesting.NewFakePassiveClock(w.get("analyst").CreationTimestamp.Time), ids.New(k))
	w.delete(w.endpoint())
	if a := w.reconcile("analyst"); len(a.Status.Conditions) != 0 {
		t.Errorf("the conditions are %+v", a.Status.Conditions)
	}
	w.create(w.endpoint())
	if a := w.reconcile("analyst"); len(a.Status.Conditions) != 0 {
		t.Errorf("before the endpoint was checked the conditions are %+v", a.Status.Conditions)
	}
	w.endpointIs(metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	w.want("analyst", "True", "Succeeded", "", "")
	if len(w.events.Events) != 1 {
		t.Errorf("there are %d events", len(w.events.Events))
	}
}

func TestSuspended(t *testing.T) {
	w := newWorld(t)
	w.change(w.agent("analyst"), `{"spec":{"suspended":true}}`)
	w.want("analyst", "True", "Suspended", "messages are rejected", "")
	w.change(w.agent("analyst"), `{"spec":{"suspended":false}}`)
	w.want("analyst", "True", "Succeeded", "", "")
}

func TestWithoutAnAccount(t *testing.T) {
	w := newWorld(t)
	w.delete(&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.want("analyst", "False", "AccountNotFound", "no Account has spec.namespace", "Stalled")
}

// TestKilledAtEachWrite: an agent has one ID, whichever write was the last of a controller that was killed.
func TestKilledAtEachWrite(t *testing.T) {
	errKilled := errors.New("the controller was killed")
	for killAt := 1; ; killAt++ {
		w := newWorld(t)
		writes := 0
		write := func(perform func() error) error {
			writes++
			if writes > killAt {
				return errKilled
			}
			if err := perform(); err != nil {
				return err
			}
			if writes == killAt {
				return errKilled
			}
			return nil
		}
		w.restart(interceptor.NewClient(w.api, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return write(func() error { return c.Patch(ctx, o, p, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
		}))
		_, _ = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: "analyst"}})
		w.restart(w.api)
		a := w.want("analyst", "True", "Succeeded", "", "")
		if id := fmt.Sprint(a.Status.ID); id != a.Labels[v1alpha1.LabelID] || a.Status.ID > 2 {
			t.Errorf("killed at write %d: the ID is %s, the label %s", killAt, id, a.Labels[v1alpha1.LabelID])
		}
		if writes < killAt {
			if writes < 3 {
				t.Errorf("there are only %d writes", writes)
			}
			return
		}
	}
}

// TestWatchedChanges: which changes of an endpoint concern its agents.
func TestWatchedChanges(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason, message string, generation int64) *v1alpha1.ModelEndpoint {
		e := &v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: generation}}
		e.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}}
		return e
	}
	before := ready("True", "Succeeded", "x", 1)
	if readiness(before) == "" || readiness(&v1alpha1.ModelEndpoint{}) != "" || readiness(&v1alpha1.Agent{}) != "" {
		t.Error("the readiness is not that of the condition")
	}
	changed := predicates.Changed(readiness)
	for name, c := range map[string]struct {
		after *v1alpha1.ModelEndpoint
		want  bool
	}{
		"the message":   {ready("True", "Succeeded", "y", 1), false},
		"the reason":    {ready("True", "Other", "x", 1), true},
		"the status":    {ready("False", "Succeeded", "x", 1), true},
		"no conditions": {&v1alpha1.ModelEndpoint{}, true},
	} {
		if got := changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAffectedAgents: a deployment and an endpoint are mapped to the agents that name them, of the right accounts.
func TestAffectedAgents(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	other.change(other.agent("analyst"), `{"spec":{"modelEndpointRef":{"name":"`+w.namespace+`"}}}`)
	w.create(w.deployment("hr"))
	for name, want := range map[string]int{"sales": 1, "hr": 0} {
		if got := ofDeployment(w.api)(t.Context(), w.deployment(name)); len(got) != want {
			t.Errorf("the agents of %s are %v", name, got)
		}
	}
	got := ofEndpoint(w.api)(t.Context(), w.endpoint())
	if len(got) != 2 || got[0].Namespace == got[1].Namespace {
		t.Errorf("the agents of the endpoint are %v", got)
	}
}
