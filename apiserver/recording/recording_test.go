package recording

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// recorded is an account with the audit log enabled; that of unrecorded is disabled.
var (
	recorded = &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a"}, Spec: v1alpha1.AccountSpec{
		Namespace: "acme", Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}}
	unrecorded = &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "globex", UID: "g"}, Spec: v1alpha1.AccountSpec{Namespace: "globex"}}
	ada        = &auth.Principal{Kind: auth.KindUser, Account: "acme", ID: "ada", Email: "ada@example.com"}
)

// fixture has an audit log in SQLite and a client whose writes can be made to fail.
type fixture struct {
	t      *testing.T
	log    *audit.Log
	api    client.WithWatch
	client *Client
	// next replaces the next write, which it can execute with do; nil executes it.
	next func(do func() error) error
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "audit.db"), nil, audit.Owner)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, log: audit.NewLog(s, audit.Options{})}
	t.Cleanup(func() {
		f.log.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	f.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(recorded.DeepCopy(), unrecorded.DeepCopy(), &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", ResourceVersion: "5", Labels: map[string]string{v1alpha1.LabelID: "7"}},
		Spec:       v1alpha1.DeploymentSpec{DisplayName: "Sales", ReleaseChannel: "latest"},
	}).WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).Build()
	intercept := func(do func() error) error {
		if f.next == nil {
			return do()
		}
		next := f.next
		f.next = nil
		return next(do)
	}
	f.client = NewClient(interceptor.NewClient(f.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return intercept(func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return intercept(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return intercept(func() error { return c.Delete(ctx, o, opts...) })
		},
	}))
	return f
}

// request begins a REST request of ada.
func (f *fixture) request() (*Request, context.Context) {
	r := NewRequest(f.t.Context(), f.log, recorded, ada, audit.SourceREST)
	return r, r.With(f.t.Context())
}

// events returns the events of acme as text, without IDs and times.
func (f *fixture) events() []string {
	f.t.Helper()
	found, err := f.log.Query(f.t.Context(), audit.Filter{Account: "acme"})
	if err != nil {
		f.t.Fatal(err)
	}
	var lines []string
	for e, err := range found {
		if err != nil {
			f.t.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s %s/%s %s [%s %s] %s %s", e.Name, e.Object.Kind, e.Object.Namespace, e.Object.Name,
			e.Outcome, e.Deployment.ID, e.Deployment.Name, e.Reason, e.Changes)))
	}
	return lines
}

func (f *fixture) want(want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.events()); diff != "" {
		f.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// edit is a patch with the object before it, like those of package edit.
type edit struct {
	client.Patch
	before client.Object
}

func (e edit) Before() client.Object { return e.before }

// rename changes the display name of the deployment sales.
func (f *fixture) rename(ctx context.Context, to string) error {
	d := &v1alpha1.Deployment{}
	if err := f.api.Get(ctx, client.ObjectKey{Namespace: "acme", Name: "sales"}, d); err != nil {
		f.t.Fatal(err)
	}
	before := d.DeepCopy()
	d.Spec.DisplayName = to
	return f.client.Patch(ctx, d, edit{client.MergeFrom(before), before})
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func key(name string) *v1alpha1.ApiKey {
	return &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: v1alpha1.ApiKeySpec{DisplayName: "CI"}}
}

func TestEveryChangeIsAnEvent(t *testing.T) {
	f := newFixture(t)
	r, ctx := f.request()
	ok(t, f.client.Create(ctx, key("ci")))
	ok(t, f.rename(ctx, "Sales EU"))
	ok(t, f.client.Delete(ctx, key("ci")))
	ok(t, r.settle(ctx))
	f.want(
		`Created API key: ApiKey acme/ci succeeded [ ]  {"spec.displayName":{"after":"CI"}}`,
		`Updated deployment configuration: Deployment acme/sales succeeded [7 Sales EU]  {"spec.displayName":{"after":"Sales EU","before":"Sales"}}`,
		`Deleted API key: ApiKey acme/ci succeeded [ ]  {"spec.displayName":{"before":"CI"}}`,
	)
}

func TestEventsHaveActorAndAddress(t *testing.T) {
	f := newFixture(t)
	var got audit.Event
	handler := serving.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		request := NewRequest(r.Context(), f.log, recorded, ada, audit.SourceSCIM)
		ok(t, f.client.Create(request.With(r.Context()), &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "u"}, Spec: v1alpha1.ScimUserSpec{UserName: "bob"}}))
		ok(t, request.settle(r.Context()))
	}), serving.WrapOptions{})
	call := httptest.NewRequest(http.MethodPost, "/", nil)
	call.RemoteAddr = "192.0.2.7:1234"
	call.Header.Set("X-Request-Id", "abc")
	handler.ServeHTTP(httptest.NewRecorder(), call)
	found, err := f.log.Query(t.Context(), audit.Filter{Account: "acme", UserEmail: "ADA@example.com"})
	ok(t, err)
	for e := range found {
		got = e
	}
	if got.Name != audit.CreatedUserViaSCIM || got.Actor != (audit.Actor{Kind: audit.ActorUser, ID: "ada", Email: "ada@example.com"}) ||
		got.IP != "192.0.2.7" || got.RequestID == "" || got.Source != audit.SourceSCIM {
		t.Errorf("event %+v", got)
	}
}

func TestOutcomes(t *testing.T) {
	gr := v1alpha1.GroupVersion.WithResource("deployments").GroupResource()
	forbidden := apierrors.NewForbidden(gr, "sales", errors.New("no"))
	for name, tc := range map[string]struct {
		intercept func(func() error) error
		want      string
	}{
		"rejected":                         {func(func() error) error { return forbidden }, "failed [7 New] Forbidden"},
		"connection lost before the write": {func(func() error) error { return errors.New("broken pipe") }, "attempted [7 New] "},
		"connection lost after the write":  {func(do func() error) error { ok(t, do()); return errors.New("broken pipe") }, "attempted [7 New] "},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r, ctx := f.request()
			f.next = tc.intercept
			if err := f.rename(ctx, "New"); err == nil {
				t.Error("no error")
			}
			ok(t, r.settle(ctx))
			f.want("Updated deployment configuration: Deployment acme/sales " + tc.want + ` {"spec.displayName":{"after":"New","before":"Sales"}}`)
		})
	}
}

func TestConflictsAreRecordedAsOneEvent(t *testing.T) {
	gr := v1alpha1.GroupVersion.WithResource("deployments").GroupResource()
	conflict := func(func() error) error { return apierrors.NewConflict(gr, "sales", errors.New("changed")) }
	f := newFixture(t)
	r, ctx := f.request()
	for range 3 {
		f.next = conflict
		if err := f.rename(ctx, "New"); !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	ok(t, f.rename(ctx, "New"))
	ok(t, r.settle(ctx))
	f.want(`Updated deployment configuration: Deployment acme/sales succeeded [7 New]  {"spec.displayName":{"after":"New","before":"Sales"}}`)

	f = newFixture(t)
	r, ctx = f.request()
	f.next = conflict
	if err := f.rename(ctx, "New"); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	ok(t, r.settle(ctx))
	f.want(`Updated deployment configuration: Deployment acme/sales failed [7 New] Conflict {"spec.displayName":{"after":"New","before":"Sales"}}`)
}

// TestChangesAfterAConflict: another writer changes the object between two attempts. The event has the changes that were made, not
// those of the first attempt.
func TestChangesAfterAConflict(t *testing.T) {
	gr := v1alpha1.GroupVersion.WithResource("deployments").GroupResource()
	f := newFixture(t)
	r, ctx := f.request()
	replace := func() error {
		Detail(ctx, "sales", "detail", "added")
		d := &v1alpha1.Deployment{}
		ok(t, f.api.Get(ctx, client.ObjectKey{Namespace: "acme", Name: "sales"}, d))
		before := d.DeepCopy()
		d.Spec.DisplayName, d.Spec.ReleaseChannel = "New", "latest"
		return f.client.Patch(ctx, d, edit{client.MergeFrom(before), before})
	}
	f.next = func(func() error) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"Other","releaseChannel":"stable"}}`))
		ok(t, f.api.Patch(ctx, &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales"}}, patch))
		return apierrors.NewConflict(gr, "sales", errors.New("changed"))
	}
	if err := replace(); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	ok(t, replace())
	ok(t, r.settle(ctx))
	f.want(`Updated deployment configuration: Deployment acme/sales succeeded [7 New]  ` +
		`{"detail":"added","spec.displayName":{"after":"New","before":"Other"},"spec.releaseChannel":{"after":"latest","before":"stable"}}`)
}

func TestConflictsOfDeletionsAreRecordedAsOneEvent(t *testing.T) {
	gr := v1alpha1.GroupVersion.WithResource("apikeys").GroupResource()
	f := newFixture(t)
	ok(t, f.api.Create(t.Context(), key("ci")))
	r, ctx := f.request()
	for range 3 {
		f.next = func(func() error) error { return apierrors.NewConflict(gr, "ci", errors.New("changed")) }
		if err := f.client.Delete(ctx, key("ci")); !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	ok(t, f.client.Delete(ctx, key("ci")))
	ok(t, r.settle(ctx))
	f.want(`Deleted API key: ApiKey acme/ci succeeded [ ]  {"spec.displayName":{"before":"CI"}}`)
}

func TestUnrecordedChangesAreRejected(t *testing.T) {
	f := newFixture(t)
	unchanged := func() {
		t.Helper()
		d := &v1alpha1.Deployment{}
		ok(t, f.api.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: "sales"}, d))
		if d.Spec.DisplayName != "Sales" {
			t.Errorf("the object was changed: %q", d.Spec.DisplayName)
		}
	}
	if err := f.rename(t.Context(), "outside of a request"); !errors.Is(err, errUnrecorded) {
		t.Error(err)
	}
	unchanged()
	none := NewRequest(t.Context(), nil, recorded, ada, audit.SourceREST)
	if err := f.rename(none.With(t.Context()), "without a database"); !errors.Is(err, audit.ErrUnavailable) {
		t.Error(err)
	}
	unchanged()
	f.log.Close()
	_, ctx := f.request()
	if err := f.rename(ctx, "with an unavailable database"); !errors.Is(err, audit.ErrUnavailable) {
		t.Error(err)
	}
	unchanged()
	if err := Do(ctx, audit.Event{Name: audit.CreatedDataToken}); !errors.Is(err, audit.ErrUnavailable) {
		t.Error(err)
	}
}

func TestDisabledLogsAndOtherKindsAreNotRecorded(t *testing.T) {
	f := newFixture(t)
	off := NewRequest(t.Context(), nil, unrecorded, ada, audit.SourceREST)
	ok(t, f.rename(off.With(t.Context()), "an account without a log"))
	ok(t, Do(off.With(t.Context()), audit.Event{Name: audit.CreatedDataToken}))
	ok(t, f.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "another-kind"}}))
	f.want()
}

// TestEnablingTheLogIsRecorded: the request that enables the audit log of an account is its first event.
func TestEnablingTheLogIsRecorded(t *testing.T) {
	f := newFixture(t)
	account := &v1alpha1.Account{}
	if err := f.api.Get(t.Context(), client.ObjectKey{Name: "acme"}, account); err != nil {
		t.Fatal(err)
	}
	account.Spec.AuditLog.Enabled = ptr.To(false)
	if err := f.api.Update(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	r := NewRequest(t.Context(), f.log, account, ada, audit.SourceREST)
	ctx := r.With(t.Context())
	rename := func(name string) {
		before := account.DeepCopy()
		account.Spec.DisplayName = name
		if err := f.client.Patch(ctx, account, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	rename("Not recorded")
	before := account.DeepCopy()
	account.Spec.AuditLog.Enabled = ptr.To(true)
	if err := f.client.Patch(ctx, account, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	r.Close(ctx)
	events := f.events()
	if len(events) != 1 || !strings.Contains(events[0], audit.UpdatedAccountSettings) {
		t.Errorf("events %q, want the one that enables the log", events)
	}
}

func TestSuccessWaitsForTheOutcome(t *testing.T) {
	respond := func(status int, closeLog bool) *httptest.ResponseRecorder {
		f := newFixture(t)
		r, ctx := f.request()
		recorder := httptest.NewRecorder()
		gate := r.Gate(ctx, recorder, serving.WriteError)
		f.next = func(do func() error) error {
			if closeLog {
				f.log.Close() // the database becomes unavailable during the write
			}
			return do()
		}
		ok(t, f.rename(ctx, "New"))
		gate.Header().Set("ETag", `W/"2"`)
		gate.WriteHeader(status)
		if _, err := gate.Write([]byte("body")); err != nil {
			t.Error(err)
		}
		return recorder
	}
	if got := respond(200, false); got.Code != 200 || got.Body.String() != "body" || got.Header().Get("ETag") == "" {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	if got := respond(200, true); got.Code != 503 || !strings.Contains(got.Body.String(), "retry if necessary") || strings.Contains(got.Body.String(), "body") || got.Header().Get("ETag") != "" {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	if got := respond(409, true); got.Code != 409 || got.Body.String() != "body" {
		t.Errorf("error responses are unchanged: %d %s", got.Code, got.Body)
	}
}

func TestDetailsAndNames(t *testing.T) {
	f := newFixture(t)
	r, ctx := f.request()
	Detail(ctx, "marketing", "members", "another object's")
	Detail(ctx, "sales", "members", map[string]any{"added": []string{"u1"}})
	ok(t, f.rename(Named(ctx, audit.TriggeredNewBuild), "New"))
	ok(t, r.settle(ctx))
	f.want(`Triggered new build: Deployment acme/sales succeeded [7 New]  {"members":{"added":["u1"]},"spec.displayName":{"after":"New","before":"Sales"}}`)
}

func TestEventNamesAreDeclared(t *testing.T) {
	for _, kind := range v1alpha1.Kinds {
		for _, names := range []v1alpha1.Events{kind.Events, kind.ScimEvents} {
			if names == (v1alpha1.Events{}) {
				continue
			}
			for _, v := range []verb{create, update, remove} {
				if name := v.name(names); !audit.Known(name) {
					t.Errorf("%s: event %q is not in audit.Names", kind.Name(), name)
				}
			}
		}
	}
}

// review returns the request of kube-apiserver when a user changes the display name of sales.
func review(user, before, after string, change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
	object := func(name string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"name":"sales","namespace":"acme","resourceVersion":"5","labels":{"platform.quoin.dev/id":"7"}},
			"spec":{"displayName":%q,"env":[{"name":"CUBEJS_DB_PASS","value":"hunter2"}]}}`, name)}
	}
	r := &admissionv1.AdmissionRequest{
		UID: types.UID(fmt.Sprint("review of ", user, after)), Kind: metav1.GroupVersionKind{Group: v1alpha1.Group, Version: "v1alpha1", Kind: "Deployment"},
		Namespace: "acme", Name: "sales", Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: user},
		Object: object(after), OldObject: object(before),
	}
	if change != nil {
		change(r)
	}
	return r
}

func TestReviewsRecordChangesOfUsers(t *testing.T) {
	f := newFixture(t)
	a := &Admission{Log: f.log, Reader: f.api, Live: f.api, Namespace: "quoin-system"}
	for _, r := range []*admissionv1.AdmissionRequest{
		review("bob", "Sales", "By kubectl", nil),
		review("bob", "Sales", "By kubectl", nil), // a retry
		review("bob", "Sales", "Sales", nil),      // labels only
		review("bob", "Sales", "Dry", func(r *admissionv1.AdmissionRequest) { r.DryRun = ptr.To(true) }),
		review("bob", "Sales", "Status", func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }),
		review("bob", "Sales", "Elsewhere", func(r *admissionv1.AdmissionRequest) { r.Namespace = "default" }),
		review("bob", "Sales", "Not recorded", func(r *admissionv1.AdmissionRequest) { r.Namespace = "globex" }),
		review("bob", "Sales", "Another kind", func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Claim" }),
		review("system:serviceaccount:quoin-system:quoin-apiserver", "Sales", "By quoin", nil),
		review("system:serviceaccount:kube-system:namespace-controller", "Sales", "", func(r *admissionv1.AdmissionRequest) {
			r.Kind.Kind, r.Operation, r.Object = "Environment", admissionv1.Delete, runtime.RawExtension{} // with its deployment
		}),
		review("argocd", "Sales", "", func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{}
		}),
	} {
		got := a.Review(t.Context(), r)
		if !got.Allowed || got.UID != r.UID || len(got.Warnings) > 0 {
			t.Errorf("%s: %+v", r.UID, got)
		}
	}
	f.want(
		`Updated deployment configuration: Deployment acme/sales succeeded [7 By kubectl]  {"spec.displayName":{"after":"By kubectl","before":"Sales"}}`,
		`Deleted deployment: Deployment acme/sales succeeded [7 Sales]  {"spec.displayName":{"before":"Sales"},"spec.env":{"before":[{"name":"CUBEJS_DB_PASS","value":"[HIDDEN]"}]}}`,
	)
	account := func(enabled bool) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"name":"acme"},"spec":{"namespace":"acme","plan":"Enterprise","auditLog":{"enabled":%t}}}`, enabled)}
	}
	a.Review(t.Context(), review("bob", "", "", func(r *admissionv1.AdmissionRequest) {
		r.Kind.Kind, r.Namespace, r.Name, r.OldObject, r.Object = "Account", "", "acme", account(true), account(false)
	}))
	if events := f.events(); len(events) != 3 || events[2] != `Updated account settings: Account /acme succeeded [ ]  {"spec.auditLog.enabled":{"after":false,"before":true}}` {
		t.Errorf("disabling the log: %q", events)
	}
	f.log.Close()
	if got := a.Review(t.Context(), review("bob", "Sales", "Unrecorded", nil)); !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("with an unavailable log: %+v", got)
	}
}

// TestCreations checks that the event of a creation has the number, which the object gets later, and
// that the creation of an object that loses its name to another one has failed.
func TestCreations(t *testing.T) {
	f := newFixture(t)
	deployment := func(name string) *v1alpha1.Deployment {
		return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: v1alpha1.DeploymentSpec{DisplayName: "New", ReleaseChannel: "latest"}}
	}
	r, ctx := f.request()
	winner, loser, slow := deployment("new"), deployment("new-2"), deployment("slow")
	for _, d := range []*v1alpha1.Deployment{winner, loser, slow} {
		ok(t, f.client.Create(ctx, d))
	}
	winner.Labels = map[string]string{v1alpha1.LabelID: "8"}
	Identified(ctx, winner)
	ok(t, f.client.Delete(ctx, loser))
	ok(t, r.settle(ctx))
	spec := `{"spec.displayName":{"after":"New"},"spec.model":{"after":{}},"spec.releaseChannel":{"after":"latest"}}`
	f.want(
		"Created deployment: Deployment acme/new succeeded [8 New]  "+spec,
		"Created deployment: Deployment acme/new-2 failed [ New] AlreadyExists "+spec,
		"Created deployment: Deployment acme/slow succeeded [ New]  "+spec,
	)
}

func TestRolloutsAreRecordedOnce(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", UID: "d", Labels: map[string]string{v1alpha1.LabelID: "7"}}}
	d.Status.CurrentVersion = "1.2.3"
	d.Status.History = []v1alpha1.VersionRun{
		{Version: "1.2.3", Image: "cube:v1.2.3", CompletionTime: metav1.NewTime(at)},
		{Version: "1.2.2", Image: "cube:v1.2.2", CompletionTime: metav1.NewTime(at.Add(-time.Hour))},
	}
	d.Status.Failed = &v1alpha1.FailedRollout{Version: v1alpha1.VersionRun{Version: "1.2.4", Image: "cube:v1.2.4"}, Message: "no pod", Time: metav1.NewTime(at.Add(time.Hour))}
	f := newFixture(t)
	for range 2 { // once per replica
		for _, e := range rollouts(d) {
			e.Account = "acme"
			ok(t, f.log.Record(t.Context(), e))
		}
	}
	f.want(
		`Rolled deployment to version: Deployment acme/sales succeeded [7 sales]  {"version":{"after":"1.2.2","image":"cube:v1.2.2"}}`,
		`Rolled deployment to version: Deployment acme/sales succeeded [7 sales]  {"version":{"after":"1.2.3","before":"1.2.2","image":"cube:v1.2.3"}}`,
		`Rolled deployment back: Deployment acme/sales succeeded [7 sales]  {"message":"no pod","version":{"after":"1.2.3","before":"1.2.4"}}`,
	)
}
