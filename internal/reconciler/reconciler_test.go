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

// events are what people were told.
type events []string

func (e *events) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	*e = append(*e, kind+" "+reason+" "+action+" "+fmt.Sprintf(note, args...))
}

// frame is a reconciler around work that a test says.
type frame struct {
	t      *testing.T
	api    client.WithWatch
	r      *Reconciler[*v1alpha1.Branch]
	told   *events
	writes int
	// refuse, when set, answers a write instead of the API server.
	refuse func(write int) error
}

func newFrame(t *testing.T, obj *v1alpha1.Branch) *frame {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f := &frame{t: t, told: &events{}}
	f.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Branch{}).WithObjects(obj).Build()
	write := func(do func() error) error {
		f.writes++
		if f.refuse != nil {
			if err := f.refuse(f.writes); err != nil {
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
		Recorder: f.told,
		Clock:    clocktesting.NewFakePassiveClock(time.Now()),
		New:      func() *v1alpha1.Branch { return &v1alpha1.Branch{} },
	}
	return f
}

func (f *frame) reconcile(ctx context.Context) (ctrl.Result, error) {
	return f.r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "acme", Name: "main"}})
}

// run reconciles with an outcome and wants no error.
func (f *frame) run(o Outcome) ctrl.Result {
	f.t.Helper()
	f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { return o }
	result, err := f.reconcile(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

func (f *frame) get() *v1alpha1.Branch {
	f.t.Helper()
	b := &v1alpha1.Branch{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Namespace: "acme", Name: "main"}, b); err != nil {
		f.t.Fatal(err)
	}
	return b
}

// rival writes to the object as another program does.
func (f *frame) rival(change func(b *v1alpha1.Branch)) {
	f.t.Helper()
	b := f.get()
	change(b)
	if err := f.api.Update(f.t.Context(), b); err != nil {
		f.t.Fatal(err)
	}
}

// ready is what the object says of itself.
func (f *frame) ready() string {
	f.t.Helper()
	all := shownOf(f.get())
	if len(all) == 0 {
		return ""
	}
	return all[0].Status + " " + all[0].Reason
}

var resource = schema.GroupResource{Group: v1alpha1.Group, Resource: "branches"}

// TestQuietFailures: one lost request must not make an object that was dealt with flap.
func TestQuietFailures(t *testing.T) {
	broken := errors.New("connection refused")
	t.Run("of a ready object", func(t *testing.T) {
		f := newFrame(t, branch(1))
		f.run(Done("x"))
		f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { return Failed(broken) }
		var got []string
		for range 4 {
			if _, err := f.reconcile(t.Context()); !errors.Is(err, broken) {
				t.Fatalf("got %v: the queue must see the error to try again with growing pauses", err)
			}
			got = append(got, f.ready())
		}
		want := []string{"True Succeeded", "True Succeeded", "False ReconcileError", "False ReconcileError"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Ready after each failure (-want +got):\n%s", diff)
		}
	})
	t.Run("a success ends the row", func(t *testing.T) {
		f := newFrame(t, branch(1))
		f.run(Done("x"))
		for range 3 {
			f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { return Failed(broken) }
			for range 2 {
				_, _ = f.reconcile(t.Context())
			}
			f.run(Done("x"))
		}
		if f.ready() != "True Succeeded" || f.writes != 1 {
			t.Errorf("Ready is %s after %d writes", f.ready(), f.writes)
		}
	})
	t.Run("of a new spec are shown at once", func(t *testing.T) {
		f := newFrame(t, branch(1))
		f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { return Failed(broken) }
		_, _ = f.reconcile(t.Context())
		if f.ready() != "False ReconcileError" {
			t.Errorf("Ready is %q", f.ready())
		}
	})
	t.Run("that are no errors are shown at once", func(t *testing.T) {
		f := newFrame(t, branch(1))
		f.run(Done("x"))
		if result := f.run(Failing(v1alpha1.ReasonGitFailed, "x", time.Minute)); result.RequeueAfter != time.Minute {
			t.Errorf("comes back after %s", result.RequeueAfter)
		}
		if f.ready() != "False GitFailed" {
			t.Errorf("Ready is %q", f.ready())
		}
	})
}

// TestNotErrors: what is no failure writes nothing, tells nobody, and is no error.
func TestNotErrors(t *testing.T) {
	terminating := apierrors.NewForbidden(resource, "main", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	cases := map[string]struct {
		err   error
		again bool
	}{
		"conflict":              {fmt.Errorf("apply: %w", apierrors.NewConflict(resource, "main", errors.New("x"))), true},
		"already exists":        {fmt.Errorf("create: %w", apierrors.NewAlreadyExists(resource, "main")), true},
		"namespace on its way":  {fmt.Errorf("create: %w", terminating), false},
		"conflict of the patch": {nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFrame(t, branch(1))
			outcome := Done("x")
			if tc.err != nil {
				outcome = Failed(tc.err)
			} else {
				f.refuse = func(int) error { return apierrors.NewConflict(resource, "main", errors.New("x")) }
			}
			for range 4 {
				result := f.run(outcome)
				if soon := result.RequeueAfter > 0 && result.RequeueAfter <= 2*conflictPause; soon != tc.again {
					t.Errorf("comes back after %s", result.RequeueAfter)
				}
			}
			if f.ready() != "" || len(*f.told) != 0 {
				t.Errorf("Ready is %q, told %v", f.ready(), *f.told)
			}
		})
	}
}

func TestObjectIsGone(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		b := branch(1)
		b.Name = "other"
		f := newFrame(t, b)
		f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome {
			t.Error("there is nothing to work on")
			return Done("")
		}
		if result, err := f.reconcile(t.Context()); err != nil || result != (ctrl.Result{}) {
			t.Errorf("got %v, %v", result, err)
		}
		var gone []client.ObjectKey
		f.r.Gone = func(_ context.Context, key client.ObjectKey) { gone = append(gone, key) }
		if _, err := f.reconcile(t.Context()); err != nil || len(gone) != 1 || gone[0].Name != "main" {
			t.Errorf("what is forgotten is %v, %v", gone, err)
		}
	})
	t.Run("meanwhile", func(t *testing.T) {
		f := newFrame(t, branch(1))
		f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
			if err := f.api.Delete(ctx, s.Object.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			return Done("x")
		}
		if result, err := f.reconcile(t.Context()); err != nil || result != (ctrl.Result{}) || len(*f.told) != 0 {
			t.Errorf("got %v, %v, told %v", result, err, *f.told)
		}
	})
}

// TestDeletion: an object that is being deleted is not worked on any more.
func TestDeletion(t *testing.T) {
	b := branch(1)
	b.Finalizers = []string{v1alpha1.FinalizerAccount}
	f := newFrame(t, b)
	if err := f.api.Delete(t.Context(), f.get()); err != nil {
		t.Fatal(err)
	}
	f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { t.Error("worked on"); return Done("") }
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

func TestReadFails(t *testing.T) {
	f := newFrame(t, branch(1))
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

// TestOutOfTime: with the context at its end nothing can be written; the queue keeps the
// object, and the failure is not held against it.
func TestOutOfTime(t *testing.T) {
	f := newFrame(t, branch(1))
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

// TestStatusCannotBeWritten: the queue tries again, and nobody is told of what is not so.
func TestStatusCannotBeWritten(t *testing.T) {
	f := newFrame(t, branch(1))
	broken := errors.New("connection refused")
	f.refuse = func(int) error { return broken }
	f.r.Work = func(context.Context, *Scope[*v1alpha1.Branch]) Outcome { return Done("x") }
	if _, err := f.reconcile(t.Context()); !errors.Is(err, broken) || len(*f.told) != 0 {
		t.Errorf("got %v, told %v", err, *f.told)
	}
}

// TestNothingNewIsNotWritten: reconciling an object on which nothing has changed costs no write.
func TestNothingNewIsNotWritten(t *testing.T) {
	for name, o := range outcomes() {
		if o.Err() != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := newFrame(t, branch(1))
			for range 3 {
				f.run(o)
			}
			if f.writes != 1 {
				t.Errorf("%d writes", f.writes)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	ready := "Normal Succeeded Reconcile x"
	cases := map[string]struct {
		outcomes []Outcome
		want     []string
	}{
		"ready":                        {[]Outcome{Done("x")}, []string{ready}},
		"ready, and still":             {[]Outcome{Done("x"), Done("x"), Done("y")}, []string{ready}},
		"under way is no news":         {[]Outcome{Progressing("A", "x"), Progressing("B", "y")}, nil},
		"ready after work":             {[]Outcome{Progressing("A", "y"), Done("x")}, []string{ready}},
		"stalled":                      {[]Outcome{Stalled("A", "x"), Stalled("A", "x")}, []string{"Warning A Reconcile x"}},
		"stalled for another reason":   {[]Outcome{Stalled("A", "x"), Stalled("B", "y")}, []string{"Warning A Reconcile x", "Warning B Reconcile y"}},
		"failing":                      {[]Outcome{Failing("A", "x", 1), Failing("A", "x", 1)}, []string{"Warning A Reconcile x"}},
		"ready again":                  {[]Outcome{Done("x"), Stalled("A", "y"), Done("x")}, []string{ready, "Warning A Reconcile y", ready}},
		"a message with format verbs":  {[]Outcome{Stalled("A", "100%d")}, []string{"Warning A Reconcile 100%d"}},
		"ready for another reason too": {[]Outcome{Done("x"), Done("y").Because("Suspended")}, []string{ready, "Normal Suspended Reconcile y"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFrame(t, branch(1))
			for _, o := range tc.outcomes {
				f.run(o)
			}
			if diff := cmp.Diff(tc.want, []string(*f.told), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuietly: progress that is over in a moment is not worth a write, as long as the status
// says already that this generation is not dealt with.
func TestQuietly(t *testing.T) {
	quiet := Progressing("A", "x").In(time.Second).Quietly()
	f := newFrame(t, branch(1))
	if result := f.run(quiet); result.RequeueAfter != time.Second || f.writes != 0 {
		t.Errorf("a fresh object: comes back after %s, %d writes", result.RequeueAfter, f.writes)
	}
	f.run(Done("x"))
	if f.run(quiet); f.ready() != "Unknown A" {
		t.Errorf("an object that was ready: Ready is %q", f.ready())
	}
	f.run(Done("x"))
	f.rival(func(b *v1alpha1.Branch) { b.Generation = 2 })
	f.writes = 0
	if f.run(quiet); f.writes != 0 || f.ready() != "True Succeeded" {
		t.Errorf("a new spec: %d writes, Ready is %q", f.writes, f.ready())
	}
}

// TestRecord: what is recorded is known whatever happens next.
func TestRecord(t *testing.T) {
	t.Run("before the work fails", func(t *testing.T) {
		f := newFrame(t, branch(1))
		f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
			s.Object.Status.ID = 7
			if err := s.Record(ctx, Progressing("A", "x")); err != nil {
				return Failed(err)
			}
			if got := f.get(); got.Status.ID != 7 || f.ready() != "Unknown A" {
				t.Errorf("while at work, the status is %+v", got.Status)
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
	t.Run("and the same in the end is one write and one event", func(t *testing.T) {
		f := newFrame(t, branch(1))
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
		if f.writes != 1 || len(*f.told) != 1 {
			t.Errorf("%d writes, told %v", f.writes, *f.told)
		}
	})
	t.Run("not on a stale copy", func(t *testing.T) {
		f := newFrame(t, branch(1))
		f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
			f.rival(func(b *v1alpha1.Branch) { b.Labels = map[string]string{"rival": "x"} })
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

func TestLabel(t *testing.T) {
	number := func(b *v1alpha1.Branch) {
		if b.Labels[v1alpha1.LabelID] == "" {
			metav1.SetMetaDataLabel(&b.ObjectMeta, v1alpha1.LabelID, "7")
		}
	}
	cases := map[string]struct {
		// rival writes before the nth write of the controller.
		rival  func(f *frame, write int)
		labels map[string]string
		// fails tells what Label returns.
		fails  func(error) bool
		writes int
	}{
		"undisturbed": {nil, map[string]string{v1alpha1.LabelID: "7"}, nil, 1},
		"over a conflict": {func(f *frame, write int) {
			if write == 1 {
				f.rival(func(b *v1alpha1.Branch) { b.Labels = map[string]string{"rival": "x"} })
			}
		}, map[string]string{v1alpha1.LabelID: "7", "rival": "x"}, nil, 2},
		"another writer's value is kept": {func(f *frame, write int) {
			if write == 1 {
				f.rival(func(b *v1alpha1.Branch) { b.Labels = map[string]string{v1alpha1.LabelID: "5"} })
			}
		}, map[string]string{v1alpha1.LabelID: "5"}, nil, 1},
		"another spec begins anew": {func(f *frame, write int) {
			if write == 1 {
				f.rival(func(b *v1alpha1.Branch) { b.Generation = 2 })
			}
		}, nil, apierrors.IsConflict, 1},
		"another object begins anew": {func(f *frame, write int) {
			if write == 1 {
				f.rival(func(b *v1alpha1.Branch) { b.UID = "2" })
			}
		}, nil, apierrors.IsConflict, 1},
		"a storm ends": {func(f *frame, write int) {
			f.rival(func(b *v1alpha1.Branch) { b.Labels = map[string]string{"rival": fmt.Sprint(write)} })
		}, map[string]string{"rival": "5"}, apierrors.IsConflict, labelTries},
		"gone meanwhile": {func(f *frame, _ int) {
			if err := f.api.Delete(f.t.Context(), f.get()); err != nil {
				f.t.Fatal(err)
			}
		}, nil, apierrors.IsNotFound, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFrame(t, branch(1))
			if tc.rival != nil {
				f.refuse = func(write int) error { tc.rival(f, write); return nil }
			}
			var err error
			f.r.Work = func(ctx context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
				s.Object.Status.ID = 7
				err = s.Label(ctx, number)
				f.refuse = nil
				if f.writes != tc.writes {
					t.Errorf("%d writes, want %d", f.writes, tc.writes)
				}
				if err != nil {
					return Failed(err)
				}
				if diff := cmp.Diff(tc.labels, s.Object.Labels); diff != "" {
					t.Errorf("labels in the controller's hands (-want +got):\n%s", diff)
				}
				return Done("x")
			}
			_, _ = f.reconcile(t.Context())
			if tc.fails != nil {
				if err == nil || !tc.fails(err) {
					t.Fatalf("got %v", err)
				}
				if tc.labels == nil {
					return
				}
			} else if err != nil {
				t.Fatal(err)
			}
			got := f.get()
			if diff := cmp.Diff(tc.labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if tc.fails == nil && (got.Status.ID != 7 || f.ready() != "True Succeeded") {
				t.Errorf("what was in the status got lost: %+v", got.Status)
			}
		})
	}
}

// TestLabelOfMetadata: annotations and finalizers go the same way, and nothing to change is
// no write.
func TestLabelOfMetadata(t *testing.T) {
	f := newFrame(t, branch(1))
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
