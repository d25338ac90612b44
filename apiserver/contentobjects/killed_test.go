package contentobjects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
	"github.com/quoin-dev/quoin/internal/tenant"
)

var errKilled = errors.New("the process was killed")

// process is quoin apiserver until it is killed: from a point on all its writes fail. There is a point before each commit of the
// content store and each write to the Kubernetes API, and one after it.
type process struct {
	*store.Store
	// stop is the number of the point, from 1; 0 for none.
	stop, points int
	events       []string
}

// point returns an error once the process is killed.
func (p *process) point() error {
	p.points++
	if p.stop != 0 && p.points >= p.stop {
		return errKilled
	}
	return nil
}

// between makes a write with its points.
func (p *process) between(write func() error) error {
	if err := p.point(); err != nil {
		return err
	}
	return errors.Join(write(), p.point())
}

// Tx implements content.Database.
func (p *process) Tx(ctx context.Context, work func(*store.Tx) error) error {
	err := p.Store.Tx(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		return p.point()
	})
	if err != nil {
		return err
	}
	return p.point()
}

// Eventf implements reconciler.Recorder.
func (p *process) Eventf(of, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	obj, _ := of.(client.Object)
	p.events = append(p.events, obj.GetName()+" "+reason)
}

// world is a Kubernetes API with a Folder and a Workbook in it, and a content store.
type world struct {
	*testing.T
	store *store.Store
	api   client.WithWatch
}

var (
	folderKey   = client.ObjectKey{Namespace: "demo", Name: "finance"}
	workbookKey = client.ObjectKey{Namespace: "demo", Name: "sales"}
)

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a1"}, Spec: v1alpha1.AccountSpec{Namespace: "demo"}}
	deployment := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "analytics", UID: "d1"}}
	f := &v1alpha1.Folder{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "finance", UID: "f1", Generation: 1}}
	f.Spec.DeploymentRef.Name, f.Spec.Name = "analytics", "Finance"
	w := &v1alpha1.Workbook{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "sales", UID: "w1", Generation: 1}}
	w.Spec.DeploymentRef.Name, w.Spec.FolderRef, w.Spec.Slug, w.Spec.Publish = "analytics", &v1alpha1.LocalReference{Name: "finance"}, "sales", ptr.To(true)
	w.Spec.Definition = &v1alpha1.WorkbookDefinition{
		Reports: []v1alpha1.WorkbookReport{{PublicID: "SalesReport1", Name: "Orders", JSONQuery: `{"measures":["orders.count"]}`}},
		DashboardDraft: &apiextensionsv1.JSON{Raw: []byte(
			`{"widgets":[{"id":"c","type":"CHART","position":{"x":0,"y":0,"w":6,"h":4},"config":{"reportPublicId":"SalesReport1"}}]}`)},
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Folder{}, &v1alpha1.Workbook{}).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).WithObjects(account, deployment, f, w).Build()
	return &world{T: t, store: contenttest.Open(t, url, audit.Owner, folder.Owner, workspace.Owner, access.Owner), api: api}
}

// run reconciles both objects some times with a new process, which is killed at a point.
func (w *world) run(stop int) *process {
	w.Helper()
	p := &process{Store: w.store, stop: stop}
	killed := interceptor.NewClient(w.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return p.between(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return p.between(func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
	o := Options{Database: p, Record: func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		e.Source, e.Actor = audit.SourceController, audit.Actor{Kind: audit.ActorSystem, ID: "quoin-apiserver"}
		return audit.RecordTx(ctx, tx, e)
	}}
	k, clk := kube.NewClient(killed, killed, FieldManager), clocktesting.NewFakePassiveClock(time.Now())
	folders, workbooks := newFolders(o, k, p, clk), newWorkbooks(o, k, p, clk)
	for range 4 { // a Folder that is deleted waits for what is in it
		for _, r := range []struct {
			reconcile.Reconciler
			key client.ObjectKey
		}{{folders, folderKey}, {workbooks, workbookKey}} {
			if _, err := r.Reconcile(w.Context(), reconcile.Request{NamespacedName: r.key}); err != nil && !errors.Is(err, errKilled) && stop == 0 {
				w.Fatal(err)
			}
		}
	}
	return p
}

// state returns what is stored, and the status of both objects.
func (w *world) state() string {
	w.Helper()
	var lines []string
	for _, table := range []string{"folder", "workbook", "report", "dashboard_version", "report_snapshot", "managed_content"} {
		lines = append(lines, fmt.Sprint(table, " ", contenttest.Count(w, w.store, table)))
	}
	rows, err := w.store.Reader().QueryContext(w.Context(), "SELECT name FROM audit_event ORDER BY name")
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			w.Fatal(err)
		}
		lines = append(lines, name)
	}
	f, wb := &v1alpha1.Folder{}, &v1alpha1.Workbook{}
	if err := errors.Join(client.IgnoreNotFound(w.api.Get(w.Context(), folderKey, f)), client.IgnoreNotFound(w.api.Get(w.Context(), workbookKey, wb))); err != nil {
		w.Fatal(err)
	}
	for _, c := range slices.Concat(f.Status.Conditions, wb.Status.Conditions) {
		lines = append(lines, fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason, " ", c.Message))
	}
	lines = append(lines, fmt.Sprint(f.Status.FolderID, f.Finalizers, wb.Status.WorkbookID, wb.Status.PublishedVersion, wb.Finalizers))
	return strings.Join(lines, "\n")
}

func (w *world) delete() {
	w.Helper()
	for key, obj := range map[client.ObjectKey]client.Object{folderKey: &v1alpha1.Folder{}, workbookKey: &v1alpha1.Workbook{}} {
		if err := errors.Join(w.api.Get(w.Context(), key, obj), w.api.Delete(w.Context(), obj)); err != nil {
			w.Fatal(err)
		}
	}
}

// TestKilledBetweenWrites kills the process at each point of the creation and of the deletion of a Folder and a Workbook. The next
// process leaves what one that was not killed leaves, with each event once, and writes nothing more then.
func TestKilledBetweenWrites(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range []struct {
			name    string
			prepare func(w *world)
		}{
			{"created", func(*world) {}},
			{"deleted", func(w *world) { w.run(0); w.delete() }},
		} {
			t.Run(c.name, func(t *testing.T) {
				undisturbed := newWorld(t, newDatabase(t))
				c.prepare(undisturbed)
				points := undisturbed.run(0).points
				want := undisturbed.state()
				if points < 6 {
					t.Fatalf("there are only %d points", points)
				}
				for stop := 1; stop <= points; stop++ {
					w := newWorld(t, newDatabase(t))
					c.prepare(w)
					first, second := w.run(stop), w.run(0)
					if got := w.state(); got != want {
						t.Errorf("killed at point %d of %d:\n%s\n\nwant:\n%s", stop, points, got, want)
					}
					for _, event := range slices.Concat(first.events, second.events) {
						if strings.Contains(event, v1alpha1.ReasonDriftCorrected) {
							t.Errorf("killed at point %d: the event %s", stop, event)
						}
					}
					if more := w.run(0).points; more != 0 {
						t.Errorf("killed at point %d: %d more points at steady state", stop, more)
					}
					if err := w.store.Close(); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	})
}
