package reconciler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// events records events.
type events []string

func (e *events) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	*e = append(*e, kind+" "+reason+" "+action+" "+fmt.Sprintf(note, args...))
}

// fixture is a reconciler of one Branch, whose work the test defines.
type fixture struct {
	t      *testing.T
	api    client.WithWatch
	r      *Reconciler[*v1alpha1.Branch]
	events *events
	writes int
	// beforeWrite, if not nil, is called before each write; its error fails the write.
	beforeWrite func(write int) error
}

func newFixture(t *testing.T, obj *v1alpha1.Branch) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, events: &events{}}
	f.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Branch{}).WithObjects(obj).Build()
	write := func(do func() error) error {
		f.writes++
		if f.beforeWrite != nil {
			if err := f.beforeWrite(f.writes); err != nil {
				return err
			}
		}
		return do()
	}
	counted := interceptor.NewClient(f.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
	f.r = &Reconciler[*v1alpha1.Branch]{
		Client:   kube.NewClient(counted, counted, "quoin-test"),
		Recorder: f.events,
		Clock:    clocktesting.NewFakePassiveClock(time.Now()),
		New:      func() *v1alpha1.Branch { return &v1alpha1.Branch{} },
	}
	return f
}

func (f *fixture) reconcile(ctx context.Context) (ctrl.Result, error) {
	return f.r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "acme", Name: "main"}})
}

// run reconciles with an outcome and expects no error.
func (f *fixture) run(o Outcome) ctrl.Result {
	f.t.Helper()
	f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { return o }
	result, err := f.reconcile(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

// fail reconciles with the outcome of an error, which the queue needs to retry with backoff.
func (f *fixture) fail(err error) {
	f.t.Helper()
	f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { return Failed(err) }
	if _, got := f.reconcile(f.t.Context()); !errors.Is(got, err) {
		f.t.Fatalf("got error %v, want %v", got, err)
	}
}

func (f *fixture) get() *v1alpha1.Branch {
	f.t.Helper()
	b := &v1alpha1.Branch{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Namespace: "acme", Name: "main"}, b); err != nil {
		f.t.Fatal(err)
	}
	return b
}

// changeObject writes to the object as another client does.
func (f *fixture) changeObject(change func(b *v1alpha1.Branch)) {
	f.t.Helper()
	b := f.get()
	change(b)
	if err := f.api.Update(f.t.Context(), b); err != nil {
		f.t.Fatal(err)
	}
}

// ready returns the status and reason of the Ready condition.
func (f *fixture) ready() string {
	f.t.Helper()
	all := conditionsOf(f.get())
	if len(all) == 0 {
		return ""
	}
	return all[0].Status + " " + all[0].Reason
}

var resource = schema.GroupResource{Group: v1alpha1.Group, Resource: "branches"}

// TestFailuresBelowTheThresholdAreNotShown: one failed request must not make a ready object flap, and is no
// reason why a rollout failed.
func TestFailuresBelowTheThresholdAreNotShown(t *testing.T) {
	broken := errors.New("connection refused")
	t.Run("of a ready object", func(t *testing.T) {
		f := newFixture(t, branch(1))
		f.run(Done("x"))
		var got []string
		for range 4 {
			f.fail(broken)
			got = append(got, f.ready())
		}
		want := []string{"True Succeeded", "True Succeeded", "False ReconcileError", "False ReconcileError"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Ready after each failure (-want +got):\n%s", diff)
		}
	})
	t.Run("a success resets the count", func(t *testing.T) {
		f := newFixture(t, branch(1))
		f.run(Done("x"))
		for range 3 {
			for range failureThreshold - 1 {
				f.fail(broken)
			}
			f.run(Done("x"))
		}
		if f.ready() != "True Succeeded" || f.writes != 1 {
			t.Errorf("Ready is %s after %d writes", f.ready(), f.writes)
		}
	})
	t.Run("of a new spec", func(t *testing.T) {
		f := newFixture(t, branch(1))
		var got []string
		for range failureThreshold {
			f.fail(broken)
			got = append(got, f.ready())
		}
		if diff := cmp.Diff([]string{"", "", "False ReconcileError"}, got); diff != "" {
			t.Errorf("Ready after each failure (-want +got):\n%s", diff)
		}
	})
	t.Run("Failing is shown at once", func(t *testing.T) {
		f := newFixture(t, branch(1))
		f.run(Done("x"))
		if result := f.run(Failing(v1alpha1.ReasonGitFailed, "x", time.Minute)); result.RequeueAfter != time.Minute {
			t.Errorf("requeued after %s", result.RequeueAfter)
		}
		if f.ready() != "False GitFailed" {
			t.Errorf("Ready is %q", f.ready())
		}
	})
}

// TestConflictsAreNotFailures: they write no status and no event, and return no error.
func TestConflictsAreNotFailures(t *testing.T) {
	terminating := apierrors.NewForbidden(resource, "main", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	cases := map[string]struct {
		err      error
		requeued bool
	}{
		"conflict":              {fmt.Errorf("apply: %w", apierrors.NewConflict(resource, "main", errors.New("x"))), true},
		"already exists":        {fmt.Errorf("create: %w", apierrors.NewAlreadyExists(resource, "main")), true},
		"namespace is deleted":  {fmt.Errorf("create: %w", terminating), false},
		"conflict of the patch": {nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, branch(1))
			outcome := Done("x")
			if tc.err != nil {
				outcome = Failed(tc.err)
			} else {
				f.beforeWrite = func(int) error { return apierrors.NewConflict(resource, "main", errors.New("x")) }
			}
			for range 4 {
				result := f.run(outcome)
				if soon := result.RequeueAfter > 0 && result.RequeueAfter <= 2*conflictBackoff; soon != tc.requeued {
					t.Errorf("requeued after %s", result.RequeueAfter)
				}
			}
			if f.ready() != "" || len(*f.events) != 0 {
				t.Errorf("Ready is %q, events %v", f.ready(), *f.events)
			}
		})
	}
}

func TestObjectDoesNotExist(t *testing.T) {
	t.Run("deleted before", func(t *testing.T) {
		b := branch(1)
		b.Name = "other"
		f := newFixture(t, b)
		f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome {
			t.Error("Work was called")
			return Done("")
		}
		if result, err := f.reconcile(t.Context()); err != nil || result != (ctrl.Result{}) {
			t.Errorf("got %v, %v", result, err)
		}
		var forgotten []client.ObjectKey
		f.r.Forget = func(_ context.Context, key client.ObjectKey) { forgotten = append(forgotten, key) }
		if _, err := f.reconcile(t.Context()); err != nil || len(forgotten) != 1 || forgotten[0].Name != "main" {
			t.Errorf("forgotten: %v, %v", forgotten, err)
		}
	})
	t.Run("deleted during the work", func(t *testing.T) {
		f := newFixture(t, branch(1))
		f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
			if err := f.api.Delete(ctx, s.Object.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			return Done("x")
		}
		if result, err := f.reconcile(t.Context()); err != nil || result != (ctrl.Result{}) || len(*f.events) != 0 {
			t.Errorf("got %v, %v, events %v", result, err, *f.events)
		}
	})
}

// TestDeletingObjectIsOnlyCleanedUp: Work is not called for it.
func TestDeletingObjectIsOnlyCleanedUp(t *testing.T) {
	b := branch(1)
	b.Finalizers = []string{v1alpha1.FinalizerAccount}
	f := newFixture(t, b)
	if err := f.api.Delete(t.Context(), f.get()); err != nil {
		t.Fatal(err)
	}
	f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { t.Error("Work was called"); return Done("") }
	if _, err := f.reconcile(t.Context()); err != nil || f.writes != 0 {
		t.Fatalf("without Delete: %v, %d writes", err, f.writes)
	}
	deletes := 0
	f.r.Delete = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome {
		deletes++
		return Progressing(v1alpha1.ReasonTerminating, "x")
	}
	if _, err := f.reconcile(t.Context()); err != nil || deletes != 1 || f.ready() != "Unknown Terminating" {
		t.Errorf("Delete was called %d times, Ready is %q, %v", deletes, f.ready(), err)
	}
}

func TestReadErrorIsReturned(t *testing.T) {
	f := newFixture(t, branch(1))
	broken := errors.New("cache is not started")
	f.r.Client = kube.NewClient(interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	}), f.api, "quoin-test")
	if _, err := f.reconcile(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestCancelledContextWritesNothing: the queue keeps the object, and the failure is not counted.
func TestCancelledContextWritesNothing(t *testing.T) {
	f := newFixture(t, branch(1))
	ctx, cancel := context.WithCancel(t.Context())
	f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome {
		cancel()
		return Failed(fmt.Errorf("list pods: %w", context.Canceled))
	}
	for range 3 {
		if _, err := f.reconcile(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if f.writes != 0 || len(f.r.failures) != 0 {
		t.Errorf("%d writes, failures %v", f.writes, f.r.failures)
	}
}

// TestFailedStatusPatchIsRetried, and no event is written.
func TestFailedStatusPatchIsRetried(t *testing.T) {
	f := newFixture(t, branch(1))
	broken := errors.New("connection refused")
	f.beforeWrite = func(int) error { return broken }
	f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { return Done("x") }
	if _, err := f.reconcile(t.Context()); !errors.Is(err, broken) || len(*f.events) != 0 {
		t.Errorf("got %v, events %v", err, *f.events)
	}
}

// TestUnchangedStatusIsNotWritten again.
func TestUnchangedStatusIsNotWritten(t *testing.T) {
	for name, o := range outcomes() {
		if o.Err() != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, branch(1))
			for range 3 {
				f.run(o)
			}
			if f.writes != 1 {
				t.Errorf("%d writes", f.writes)
			}
		})
	}
}

func TestEventsOnChangesOfReady(t *testing.T) {
	ready := "Normal Succeeded Reconcile x"
	cases := map[string]struct {
		outcomes []Outcome
		want     []string
	}{
		"ready":                        {[]Outcome{Done("x")}, []string{ready}},
		"still ready":                  {[]Outcome{Done("x"), Done("x"), Done("y")}, []string{ready}},
		"no event for progress":        {[]Outcome{Progressing("A", "x"), Progressing("B", "y")}, nil},
		"ready after progress":         {[]Outcome{Progressing("A", "y"), Done("x")}, []string{ready}},
		"stalled":                      {[]Outcome{Stalled("A", "x"), Stalled("A", "x")}, []string{"Warning A Reconcile x"}},
		"stalled for another reason":   {[]Outcome{Stalled("A", "x"), Stalled("B", "y")}, []string{"Warning A Reconcile x", "Warning B Reconcile y"}},
		"failing":                      {[]Outcome{Failing("A", "x", 1), Failing("A", "x", 1)}, []string{"Warning A Reconcile x"}},
		"ready again":                  {[]Outcome{Done("x"), Stalled("A", "y"), Done("x")}, []string{ready, "Warning A Reconcile y", ready}},
		"a message with format verbs":  {[]Outcome{Stalled("A", "100%d")}, []string{"Warning A Reconcile 100%d"}},
		"ready for another reason too": {[]Outcome{Done("x"), Done("y").WithReason("Suspended")}, []string{ready, "Normal Suspended Reconcile y"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, branch(1))
			for _, o := range tc.outcomes {
				f.run(o)
			}
			if diff := cmp.Diff(tc.want, []string(*f.events), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotFoundAfterApply checks that an object that is applied a moment before the one it refers to
// is not reported as stalled, which tools such as Flux treat as final.
func TestNotFoundAfterApply(t *testing.T) {
	created := branch(1)
	f := newFixture(t, created)
	now := time.Now().Truncate(time.Second) // as creation timestamps
	f.r.Clock = clocktesting.NewFakePassiveClock(now)
	f.changeObject(func(b *v1alpha1.Branch) { b.CreationTimestamp = metav1.NewTime(now.Add(-2 * time.Second)) })
	if result := f.run(NotFound("A", "x")); result.RequeueAfter != applyGracePeriod-2*time.Second || f.writes != 0 || len(*f.events) != 0 {
		t.Errorf("a new object: requeued after %s, %d writes, events %q", result.RequeueAfter, f.writes, *f.events)
	}
	f.changeObject(func(b *v1alpha1.Branch) { b.CreationTimestamp = metav1.NewTime(now.Add(-applyGracePeriod)) })
	if f.run(NotFound("A", "x")); f.ready() != "False A" {
		t.Errorf("after the grace period: Ready is %q", f.ready())
	}
	f.changeObject(func(b *v1alpha1.Branch) { b.CreationTimestamp = metav1.NewTime(now) })
	f.run(Done("x"))
	if f.run(NotFound("A", "x")); f.ready() != "False A" {
		t.Errorf("an object that was ready: Ready is %q", f.ready())
	}
}

// TestTransientOutcomeIsNotWritten while the status shows that the generation is not handled yet.
func TestTransientOutcomeIsNotWritten(t *testing.T) {
	transient := Progressing("A", "x").RequeueIn(time.Second).Transient()
	f := newFixture(t, branch(1))
	if result := f.run(transient); result.RequeueAfter != time.Second || f.writes != 0 {
		t.Errorf("a new object: requeued after %s, %d writes", result.RequeueAfter, f.writes)
	}
	f.run(Done("x"))
	if f.run(transient); f.ready() != "Unknown A" {
		t.Errorf("an object that was ready: Ready is %q", f.ready())
	}
	f.run(Done("x"))
	f.changeObject(func(b *v1alpha1.Branch) { b.Generation = 2 })
	f.writes = 0
	if f.run(transient); f.writes != 0 || f.ready() != "True Succeeded" {
		t.Errorf("a new spec: %d writes, Ready is %q", f.writes, f.ready())
	}
}

// TestDeferredOutcomeIsNotWritten: the status keeps the state before, and the next reconciliation is not
// later than the outcome requests.
func TestDeferredOutcomeIsNotWritten(t *testing.T) {
	f := newFixture(t, branch(1))
	f.run(Done("x"))
	f.writes = 0
	result := f.run(Progressing("A", "x").RequeueIn(time.Second).Deferred())
	if result.RequeueAfter != time.Second || f.writes != 0 || f.ready() != "True Succeeded" {
		t.Errorf("requeued after %s, %d writes, Ready is %q", result.RequeueAfter, f.writes, f.ready())
	}
}

// TestErrorsAreReplaced also by outcomes that are not written otherwise, so that an error is not reported after
// its end.
func TestErrorsAreReplaced(t *testing.T) {
	for name, o := range map[string]Outcome{"transient": Progressing("A", "x").Transient(), "deferred": Progressing("A", "x").Deferred()} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, branch(1))
			for range failureThreshold {
				f.fail(errors.New("no answer"))
			}
			if f.ready() != "False ReconcileError" {
				t.Fatalf("after the errors: Ready is %q", f.ready())
			}
			f.writes = 0
			for range 2 {
				if f.run(o); f.ready() != "Unknown A" || f.writes != 1 {
					t.Errorf("after %d writes Ready is %q", f.writes, f.ready())
				}
			}
		})
	}
}

// TestRecordWritesTheStatusBeforeTheWorkEnds.
func TestRecordWritesTheStatusBeforeTheWorkEnds(t *testing.T) {
	t.Run("before the work fails", func(t *testing.T) {
		f := newFixture(t, branch(1))
		f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
			s.Object.Status.ID = 7
			if err := s.Record(ctx, Progressing("A", "x")); err != nil {
				return Failed(err)
			}
			if got := f.get(); got.Status.ID != 7 || f.ready() != "Unknown A" {
				t.Errorf("during the work, the status is %+v", got.Status)
			}
			s.Object.Status.LastHash = "abc"
			return Stalled("B", "y")
		}
		if _, err := f.reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := f.get(); got.Status.ID != 7 || got.Status.LastHash != "abc" || f.ready() != "False B" || f.writes != 2 {
			t.Errorf("after %d writes the status is %+v", f.writes, got.Status)
		}
	})
	t.Run("the same outcome is one write and one event", func(t *testing.T) {
		f := newFixture(t, branch(1))
		f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
			o := Done("x")
			if err := s.Record(ctx, o); err != nil {
				return Failed(err)
			}
			return o
		}
		for range 2 {
			if _, err := f.reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if f.writes != 1 || len(*f.events) != 1 {
			t.Errorf("%d writes, events %v", f.writes, *f.events)
		}
	})
	t.Run("a stale object is a conflict", func(t *testing.T) {
		f := newFixture(t, branch(1))
		f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
			f.changeObject(func(b *v1alpha1.Branch) { b.Labels = map[string]string{"other": "x"} })
			if err := s.Record(ctx, Done("x")); !apierrors.IsConflict(err) {
				t.Errorf("got %v, want a conflict", err)
			}
			return Done("x")
		}
		if result, err := f.reconcile(t.Context()); err != nil || result.RequeueAfter == 0 || f.ready() != "" {
			t.Errorf("got %v, %v, Ready %q", result, err, f.ready())
		}
	})
}

// setID allocates an ID as the controllers do.
func setID(b *v1alpha1.Branch) {
	if b.Labels[v1alpha1.LabelID] == "" {
		metav1.SetMetaDataLabel(&b.ObjectMeta, v1alpha1.LabelID, "7")
	}
}

type labelCase struct {
	// disturb changes the object before the nth write of the controller.
	disturb func(f *fixture, write int)
	labels  map[string]string
	// isExpected checks the error of Label; nil for none.
	isExpected func(error) bool
	writes     int
}

// beforeFirstWrite changes the object before the first write of the controller.
func beforeFirstWrite(change func(b *v1alpha1.Branch)) func(f *fixture, write int) {
	return func(f *fixture, write int) {
		if write == 1 {
			f.changeObject(change)
		}
	}
}

func TestLabelRetriesConflicts(t *testing.T) {
	cases := map[string]labelCase{
		"undisturbed": {nil, map[string]string{v1alpha1.LabelID: "7"}, nil, 1},
		"conflict": {
			beforeFirstWrite(func(b *v1alpha1.Branch) { b.Labels = map[string]string{"other": "x"} }),
			map[string]string{v1alpha1.LabelID: "7", "other": "x"}, nil, 2,
		},
		"another writer's value is kept": {
			beforeFirstWrite(func(b *v1alpha1.Branch) { b.Labels = map[string]string{v1alpha1.LabelID: "5"} }),
			map[string]string{v1alpha1.LabelID: "5"}, nil, 1,
		},
		"another writer of the status": {func(f *fixture, write int) {
			b := f.get()
			b.Status.LastHash = "abc"
			if err := f.api.Status().Update(f.t.Context(), b); err != nil || write > 1 {
				f.t.Fatal(write, err)
			}
		}, nil, apierrors.IsConflict, 1},
		"new spec":       {beforeFirstWrite(func(b *v1alpha1.Branch) { b.Generation = 2 }), nil, apierrors.IsConflict, 1},
		"another object": {beforeFirstWrite(func(b *v1alpha1.Branch) { b.UID = "2" }), nil, apierrors.IsConflict, 1},
		"too many conflicts": {func(f *fixture, write int) {
			f.changeObject(func(b *v1alpha1.Branch) { b.Labels = map[string]string{"other": fmt.Sprint(write)} })
		}, map[string]string{"other": "5"}, apierrors.IsConflict, labelAttempts},
		"deleted": {func(f *fixture, _ int) {
			if err := f.api.Delete(f.t.Context(), f.get()); err != nil {
				f.t.Fatal(err)
			}
		}, nil, apierrors.IsNotFound, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.run(t, newFixture(t, branch(1))) })
	}
}

func (tc labelCase) run(t *testing.T, f *fixture) {
	t.Helper()
	if tc.disturb != nil {
		f.beforeWrite = func(write int) error { tc.disturb(f, write); return nil }
	}
	var err error
	f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
		s.Object.Status.ID = 7
		err = s.Label(ctx, setID)
		f.beforeWrite = nil
		if f.writes != tc.writes {
			t.Errorf("%d writes, want %d", f.writes, tc.writes)
		}
		if err != nil {
			return Failed(err)
		}
		if diff := cmp.Diff(tc.labels, s.Object.Labels); diff != "" {
			t.Errorf("labels of the controller's copy (-want +got):\n%s", diff)
		}
		return Done("x")
	}
	_, _ = f.reconcile(t.Context())
	if tc.isExpected == nil && err != nil || tc.isExpected != nil && !tc.isExpected(err) {
		t.Fatalf("got %v", err)
	}
	if tc.labels == nil {
		return
	}
	got := f.get()
	if diff := cmp.Diff(tc.labels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if tc.isExpected == nil && (got.Status.ID != 7 || f.ready() != "True Succeeded") {
		t.Errorf("the change of the status is lost: %+v", got.Status)
	}
}

// TestLabelWritesAnnotationsAndFinalizers too, once.
func TestLabelWritesAnnotationsAndFinalizers(t *testing.T) {
	f := newFixture(t, branch(1))
	f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
		err := s.Label(ctx, func(b *v1alpha1.Branch) {
			b.Annotations = map[string]string{v1alpha1.AnnotationCommit: "abc"}
			b.Finalizers = []string{v1alpha1.FinalizerAccount}
		})
		if err != nil {
			return Failed(err)
		}
		if s.Object.Annotations[v1alpha1.AnnotationCommit] != "abc" || len(s.Object.Finalizers) != 1 || s.Object.ResourceVersion != f.get().ResourceVersion {
			t.Errorf("the controller's copy is %+v", s.Object.ObjectMeta)
		}
		return Done("x")
	}
	for range 2 {
		if _, err := f.reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if f.writes != 2 {
		t.Errorf("%d writes, want one of metadata and one of the status", f.writes)
	}
}
