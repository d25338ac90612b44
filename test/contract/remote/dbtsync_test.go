package remote_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/dbtobjects"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// dbtWorld has DbtSync objects that users create with kubectl.
type dbtWorld struct {
	*world
	cluster client.Client
	objects *dbtobjects.Objects
	worker  *dbtsync.Worker
}

const manifestText = `{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/manifest/v12.json","dbt_version":"1.10.2","adapter_type":"postgres"},
	"nodes":{"model.shop.%[1]s":{"resource_type":"model","name":"%[1]s","schema":"analytics","columns":{"id":{"name":"id"}}}}}`

func newDbtWorld(w *world) *dbtWorld {
	w.Helper()
	d := &dbtWorld{world: w, cluster: fake.NewClientBuilder().WithScheme(apitest.Scheme(w)).WithStatusSubresource(&v1alpha1.DbtSync{}).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).WithObjects(w.account, w.deployment.DeepCopy()).Build()}
	d.objects = dbtobjects.New(dbtobjects.Options{
		Cached: d.cluster, Live: d.cluster, Writer: d.cluster, Syncs: &dbtsync.Syncs{DB: w.db, Record: w.record}, Git: true,
		Trusted: func() []byte { return nil }, Log: slog.New(slog.DiscardHandler),
	})
	database, ok := w.db.(*store.Store)
	if !ok {
		w.Fatalf("a database of type %T", w.db)
	}
	repositories := &repository.Repositories{DB: w.db, Record: w.record}
	d.worker = &dbtsync.Worker{
		Store: database, Repositories: repositories, Record: w.record, Log: slog.New(slog.DiscardHandler),
		Open: func(ctx context.Context, of content.Scope) (*repository.Session, string, error) {
			mirror, err := w.mirrors.Open(ctx, w.deployment, of, gitmirror.Current)
			if err != nil {
				return nil, "", err
			}
			return mirror.Session(ctx, repositories), mirror.Production, nil
		},
		Moved: func(context.Context, content.Scope) error { w.moved++; return nil },
	}
	return d
}

// sync applies a DbtSync to a branch, with a manifest that has one model, and returns it after its end.
func (d *dbtWorld) sync(name, branch, model string) *v1alpha1.DbtSync {
	d.Helper()
	d.must(d.cluster.Create(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.deployment.Namespace, Name: name}, Data: map[string]string{"manifest.json": fmt.Sprintf(manifestText, model)},
	}))
	d.must(d.cluster.Create(context.Background(), &v1alpha1.DbtSync{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.deployment.Namespace, Name: name, UID: types.UID(uuid.NewString()), CreationTimestamp: metav1.Now()},
		Spec: v1alpha1.DbtSyncSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: d.deployment.Name}, Branch: branch,
			Source: v1alpha1.DbtSource{Manifest: &v1alpha1.DbtManifestSource{ConfigMapRef: v1alpha1.LocalReference{Name: name}}},
		},
	}))
	for range 3 {
		d.must(d.objects.Pass(context.Background()))
		_, err := d.worker.Step(context.Background())
		d.must(err)
	}
	s := &v1alpha1.DbtSync{}
	d.must(d.cluster.Get(context.Background(), client.ObjectKey{Namespace: d.deployment.Namespace, Name: name}, s))
	if !s.Status.Ended() {
		d.Fatalf("%s has not ended: %+v", name, s.Status)
	}
	return s
}

// TestDbtSyncsOfKubectlOnARemote: the files of a DbtSync land on the Git host: on a new branch, or on one that
// exists, in one commit each.
func TestDbtSyncsOfKubectlOnARemote(t *testing.T) {
	onBoth(t, func(w *world) {
		d := newDbtWorld(w)
		s := d.sync("first", "", "orders")
		if s.Status.Stage != v1alpha1.DbtStageCompleted || s.Status.GeneratedFiles != 1 || !strings.HasPrefix(s.Status.Branch, "dbt-sync/manifest-") {
			t.Fatalf("%+v", s.Status)
		}
		branch := s.Status.Branch
		if w.host.commits(branch) != 2 || !strings.Contains(w.host.file(branch, "model/cubes/dbt/orders.yml"), "name: dbt_orders") || w.host.file(branch, "model/a.yml") == "" {
			t.Errorf("the host has %d commits and %q", w.host.commits(branch), w.host.git("ls-tree", "-r", "--name-only", branch))
		}
		if got := w.host.git("log", "-1", "--format=%an <%ae>", branch); got != "Quoin dbt sync <dbt-sync@quoin.invalid>" {
			t.Error(got)
		}
		if got := w.recorded(); !strings.Contains(got, "Started dbt sync: succeeded") || !strings.Contains(got, "Finished dbt sync: ") || w.moved != 1 {
			t.Errorf("%s; the controller was told %d times", got, w.moved)
		}
		if again := d.sync("again", branch, "orders"); again.Status.Stage != v1alpha1.DbtStageCompleted || w.host.commits(branch) != 2 {
			t.Errorf("a sync without changes: %+v, %d commits", again.Status, w.host.commits(branch))
		}
		// Another client pushes while the files are written.
		w.host.oncePushed(func() { w.host.push(branch, map[string]string{"model/theirs.yml": "x\n"}) })
		third := d.sync("third", branch, "customers")
		w.host.onRequest(nil)
		if third.Status.Stage != v1alpha1.DbtStageCompleted || w.host.commits(branch) != 4 || w.host.file(branch, "model/theirs.yml") != "x" ||
			w.host.file(branch, "model/cubes/dbt/orders.yml") != "" || w.host.file(branch, "model/cubes/dbt/customers.yml") == "" {
			t.Errorf("%+v: %q", third.Status, w.host.git("ls-tree", "-r", "--name-only", branch))
		}
		if w.host.commits("main") != 1 {
			t.Error("production has changed")
		}
		w.host.git("fsck", "--strict")
	})
}

// TestDbtSyncsOfKubectlThatARemoteRefuses: nothing changes, and the status says why.
func TestDbtSyncsOfKubectlThatARemoteRefuses(t *testing.T) {
	onBoth(t, func(w *world) {
		d := newDbtWorld(w)
		before := w.host.heads()
		fails := func(name, branch string, words ...string) {
			t.Helper()
			s := d.sync(name, branch, "orders")
			if s.Status.Stage != v1alpha1.DbtStageFailed || s.Status.CompletionTime == nil || strings.Contains(s.Status.Error, password) {
				t.Errorf("%s: %+v", name, s.Status)
			}
			for _, word := range words {
				if !strings.Contains(s.Status.Error, word) {
					t.Errorf("%s: %q has no %q", name, s.Status.Error, word)
				}
			}
			if after := w.host.heads(); after != before {
				t.Errorf("%s: the branches were\n%s\nand are\n%s", name, before, after)
			}
		}
		fails("to-the-default-branch", "main", "main", "production")
		w.host.hook(`echo 'ask ops, not ` + password + `' >&2; exit 1`)
		fails("refused", "", "pre-receive hook declined", "ask ops")
		w.host.hook("")
		w.host.onRequest(func(rw http.ResponseWriter, r *http.Request) bool {
			if !isPush(r) {
				return false
			}
			http.Error(rw, "read-only", http.StatusForbidden)
			return true
		})
		fails("read-only", "", "write access")
		w.host.onRequest(nil)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"model":{"git":{"branch":"next"}}}}`))
		d.must(d.cluster.Patch(context.Background(), w.deployment.DeepCopy(), patch))
		fails("to-production", "next", "spec.branch", "production")
	})
}
