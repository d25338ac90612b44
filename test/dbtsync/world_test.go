// Package dbtsync_test runs dbt syncs with the code of both processes, quoin apiserver and quoin controller, on a
// real Kubernetes API server and a real database, and kills the process that has them. The tests do what the Git
// host, users, the Job controller and the pod do.
package dbtsync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/dbtobjects"
	controller "github.com/quoin-dev/quoin/controllers/dbtsync"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// The kinds of syncs.
const (
	// byPush is started by a webhook, which the Git host repeats until it has a response.
	byPush = "push"
	// byUser is a DbtSync that a user has created.
	byUser = "user"
	// cancelled is a DbtSync that a user cancels while its pod runs.
	cancelled = "cancelled"
)

// place is where a sync runs: what a process needs to know to continue.
type place struct {
	kind, databaseURL, kubeconfig, namespace string
}

// process has the code of quoin apiserver and quoin controller. Each of their writes is before and after a point
// of steps, and each look at the world is one of the loop in run.
type process struct {
	place
	steps *contenttest.Stepping
	store *store.Store
	// kube is for what Quoin does not do.
	kube       client.WithWatch
	account    *v1alpha1.Account
	deployment *v1alpha1.Deployment
	syncs      *dbtsync.Syncs
	objects    *dbtobjects.Objects
	reconciler *reconciler.Reconciler[*v1alpha1.DbtSync]
	worker     *dbtsync.Worker
	// controllerFirst changes the order in which the two continue.
	controllerFirst bool
}

// start starts a process, which stops at a point; 0 for none. ahead is by how much its clock is ahead.
func start(ctx context.Context, at place, stop int, ahead time.Duration) (*process, error) {
	s, err := store.Open(ctx, at.databaseURL, nil, audit.Owner, repository.Owner, dbtsync.Owner)
	if err != nil {
		return nil, err
	}
	p := &process{place: at, store: s, steps: &contenttest.Stepping{Database: s, Stop: stop}}
	if p.kube, err = newClient(at.kubeconfig); err != nil {
		return nil, err
	}
	p.account, p.deployment = &v1alpha1.Account{}, &v1alpha1.Deployment{}
	if err := p.kube.Get(ctx, client.ObjectKey{Name: at.namespace}, p.account); err != nil {
		return nil, err
	}
	if err := p.kube.Get(ctx, client.ObjectKey{Namespace: at.namespace, Name: "sales"}, p.deployment); err != nil {
		return nil, err
	}
	p.compose(func() time.Time { return time.Now().Add(ahead) })
	return p, nil
}

// newClient returns a client without a cache.
func newClient(kubeconfig string) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clientgoscheme.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// compose creates what the two processes have in memory.
func (p *process) compose(now func() time.Time) {
	stepping, log := p.stepping(), slog.New(slog.DiscardHandler)
	p.syncs = &dbtsync.Syncs{DB: p.steps, Record: p.record, Now: now}
	p.objects = dbtobjects.New(dbtobjects.Options{
		Cached: stepping, Live: stepping, Writer: stepping, Syncs: p.syncs, Git: true, Trusted: func() []byte { return []byte("certificates") }, Log: log, Now: now,
	})
	p.reconciler = controller.New(kube.NewClient(stepping, stepping, "quoin-controller"), events.NewFakeRecorder(1000), clock.RealClock{}, controller.Options{
		QuoinImage: "quoin:1", DbtImage: "dbt:1", URL: "https://quoin-apiserver.quoin-system.svc",
	})
	repositories := &repository.Repositories{DB: p.steps, Record: p.record, Now: now}
	p.worker = &dbtsync.Worker{
		Store: p.store, Repositories: repositories, Record: p.record, Log: log, Now: now,
		Open: func(ctx context.Context, of content.Scope) (*repository.Session, string, error) {
			return repositories.Session(ctx, of), v1alpha1.DefaultBranch, nil
		},
		Moved: func(context.Context, content.Scope) error { p.steps.Point(); return nil },
	}
}

// stepping returns a client whose writes are before and after points. It finds accounts as the index of a cache
// does.
func (p *process) stepping() client.WithWatch {
	around := func(write func() error) error {
		p.steps.Point()
		err := write()
		p.steps.Point()
		return err
	}
	return interceptor.NewClient(p.kube, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return around(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return around(func() error { return c.Delete(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return around(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return around(func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return around(func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			all := client.ListOptions{}
			all.ApplyOptions(opts)
			accounts, ok := list.(*v1alpha1.AccountList)
			if !ok || all.FieldSelector == nil {
				return c.List(ctx, list, opts...)
			}
			if namespace, _ := all.FieldSelector.RequiresExactMatch(tenant.IndexNamespace); namespace == p.namespace {
				accounts.Items = []v1alpha1.Account{*p.account}
			}
			return nil
		},
	})
}

func (p *process) record(ctx context.Context, tx *store.Tx, e audit.Event) error {
	e.Account, e.Source, e.Actor = p.account.Name, audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
	return audit.RecordTx(ctx, tx, e)
}

func (p *process) scope() content.Scope {
	return content.Scope{
		Account:    store.Account{UID: string(p.account.UID), Name: p.account.Name},
		Deployment: store.Deployment{UID: string(p.deployment.UID), Namespace: p.namespace, Name: p.deployment.Name},
	}
}

// errRunning is returned if a sync does not end.
var errRunning = errors.New("the sync has not ended")

// run continues the sync until its object reports the end.
func (p *process) run(ctx context.Context) error {
	work := []func(context.Context) error{
		p.objects.Pass, p.reconcile,
		func(ctx context.Context) error { _, err := p.worker.Step(ctx); return err },
		p.others,
	}
	if p.controllerFirst {
		work[0], work[1] = work[1], work[0]
	}
	answered := false
	for range 100 {
		if p.kind == byPush && !answered {
			if err := p.push(ctx); err != nil {
				return fmt.Errorf("push: %w", err)
			}
			answered = true
		}
		for _, do := range work {
			if err := do(ctx); err != nil {
				return err
			}
		}
		if obj, err := p.sync(ctx); err != nil || obj != nil && obj.Status.Ended() && ready(obj) != metav1.ConditionUnknown {
			return err
		}
	}
	obj, _ := p.sync(ctx)
	return fmt.Errorf("%w: %+v", errRunning, obj)
}

// push sends the webhook.
func (p *process) push(ctx context.Context) error {
	_, _, err := p.syncs.StartPushed(ctx, p.scope(), "GitHook:dbt-hook/sales", dbtsync.New{
		DeploymentNumber: "7", Output: dbtsync.ToBranch, Branch: "dbt-sync/new", Base: v1alpha1.DefaultBranch, AuthorName: "a", AuthorEmail: "a@example.com",
		Git: &v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git"}, Push: &dbtsync.Push{Branch: "main"}, Delivery: "1",
	})
	return err
}

// sync returns the only DbtSync; nil if there is none.
func (p *process) sync(ctx context.Context) (*v1alpha1.DbtSync, error) {
	list := &v1alpha1.DbtSyncList{}
	err := p.kube.List(ctx, list, client.InNamespace(p.namespace))
	switch {
	case err != nil:
		return nil, err
	case len(list.Items) > 1:
		return nil, fmt.Errorf("%d DbtSyncs", len(list.Items))
	case len(list.Items) == 0:
		return nil, nil
	}
	return &list.Items[0], nil
}

func ready(obj *v1alpha1.DbtSync) metav1.ConditionStatus {
	i := slices.IndexFunc(obj.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionReady })
	if i < 0 {
		return metav1.ConditionUnknown
	}
	return obj.Status.Conditions[i].Status
}

// reconcile has the controller look at the DbtSync.
func (p *process) reconcile(ctx context.Context) error {
	obj, err := p.sync(ctx)
	if obj == nil || err != nil {
		return err
	}
	_, err = p.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	return err
}

// others does what the pod, the Job controller and the user do.
func (p *process) others(ctx context.Context) error {
	obj, err := p.sync(ctx)
	if obj == nil || err != nil || obj.Status.Ended() {
		return err
	}
	job := &batchv1.Job{}
	err = p.kube.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: engine.DbtJobName(obj.Name)}, job)
	if err != nil || job.Status.CompletionTime != nil {
		return client.IgnoreNotFound(err)
	}
	if p.kind == cancelled {
		return p.kube.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancelled":true}}`)))
	}
	secret := &corev1.Secret{}
	if err := p.kube.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: engine.DbtDeliveryName(obj.Name)}, secret); err != nil {
		return err
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPut, engine.DbtDeliveryPath(p.namespace, obj.Name), strings.NewReader(`{"manifest":`+manifest+`}`))
	r.SetBasicAuth("dbt", string(secret.Data[corev1.BasicAuthPasswordKey]))
	response := httptest.NewRecorder()
	if p.objects.ServeHTTP(response, r); response.Code != http.StatusNoContent {
		return fmt.Errorf("the delivery has the response %d %s", response.Code, response.Body)
	}
	before := job.DeepCopy()
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	for _, c := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now})
	}
	return p.kube.Status().Patch(ctx, job, client.MergeFrom(before))
}

const manifest = `{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/manifest/v12.json","dbt_version":"1.10.2","adapter_type":"postgres"},
	"nodes":{"model.shop.orders":{"resource_type":"model","name":"orders","schema":"analytics","columns":{"id":{"name":"id"}}}}}`

// branches returns the branches with the number of their commits.
func (p *process) branches(ctx context.Context) (string, error) {
	session := (&repository.Repositories{DB: p.store, Record: p.record}).Session(ctx, p.scope())
	all, err := session.Branches()
	if err != nil {
		return "", err
	}
	var found []string
	for _, b := range all {
		n, at := 0, b.Commit
		for ; !at.IsZero(); n++ {
			commit, err := object.GetCommit(session, at)
			if err != nil {
				return "", err
			}
			if at = plumbing.ZeroHash; len(commit.ParentHashes) > 0 {
				at = commit.ParentHashes[0]
			}
		}
		found = append(found, fmt.Sprintf("%s %d", b.Name, n))
	}
	return strings.Join(found, ", "), nil
}

// commitReadme makes the branch main.
func (p *process) commitReadme(ctx context.Context) error {
	session := (&repository.Repositories{DB: p.store, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}).Session(ctx, p.scope())
	blob, err := modeltree.AddBlob(session, []byte("hello"))
	if err != nil {
		return err
	}
	tree, err := modeltree.Apply(session, plumbing.ZeroHash, []modeltree.Edit{{Path: "README.md", Blob: blob}})
	if err != nil {
		return err
	}
	commit, err := modeltree.AddCommit(session, modeltree.Commit{Tree: tree, AuthorName: "a", AuthorEmail: "a@example.com", Message: "m", When: time.Now()})
	if err != nil {
		return err
	}
	return session.Save([]repository.Move{{Branch: v1alpha1.DefaultBranch, To: commit}}, nil, nil)
}

// child is a process that continues a sync, and stops at a point until it is killed.
func child(argument string) error {
	stop, values, err := contenttest.ParseArguments(argument)
	if err != nil {
		return err
	}
	if len(values) != 4 {
		return fmt.Errorf("%d values", len(values))
	}
	p, err := start(context.Background(), place{values[0], values[1], values[2], values[3]}, stop, 0)
	if err != nil {
		return err
	}
	if err := p.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return err
	}
	return nil
}
