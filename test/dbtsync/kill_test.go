package dbtsync_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childArgument makes the test binary a process that works on a sync, and stops at a point.
const childArgument = "QUOIN_TEST_DBTSYNC_CHILD"

// kubeconfig is the file of an administrator of the API server; empty without one.
var kubeconfig string

func TestMain(m *testing.M) {
	if os.Getenv(childArgument) != "" || os.Getenv("KUBEBUILDER_ASSETS") == "" {
		storetest.Main(m, map[string]func(argument string) error{childArgument: child})
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "quoin-dbtsync-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	env, err := apitest.Start()
	if err != nil {
		fmt.Println("start the API server:", err)
		return 1
	}
	defer func() { _ = env.Stop() }()
	kubeconfig = filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		fmt.Println(err)
		return 1
	}
	return m.Run()
}

// TestProcessesAreKilled kills the process with the code of quoin apiserver and quoin controller at each of its
// writes in the life of a sync: before it, and after it, when no process knows of it. Whichever of the two continues
// first, the sync ends, and its branch, its commit, its Job and its events exist once.
func TestProcessesAreKilled(t *testing.T) {
	if kubeconfig == "" {
		apitest.Server(t) // skips, or fails if CI is set
	}
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for i, kind := range []string{byPush, byUser, cancelled} {
			first, every := 1, 1
			if !strings.HasPrefix(newDatabase(t), "sqlite:") { // the writes are the same, so some points are enough
				first, every = 1+i, 5
			}
			t.Run(kind, func(t *testing.T) { testKind(t, kind, newDatabase, first, every) })
		}
	})
}

// testKind runs a sync, and kills the process at its points from the first, of which it takes every few.
func testKind(t *testing.T, kind string, newDatabase func(testing.TB) string, first, every int) {
	p := newProcess(t, newPlace(t, kind, newDatabase(t)), 0)
	must(t, p.run(t.Context()))
	check(t, p)
	points := p.steps.Points
	if points < 20 {
		t.Fatalf("%d points", points)
	}
	for point := first; point <= points; point += every {
		t.Run(fmt.Sprint(point), func(t *testing.T) { testKilled(t, newPlace(t, kind, newDatabase(t)), point) })
	}
}

func testKilled(t *testing.T, at place, point int) {
	storetest.KillChild(t, childArgument, contenttest.Arguments(point, at.kind, at.databaseURL, at.kubeconfig, at.namespace), func(line string) bool { return line == contenttest.Stopped })
	p := newProcess(t, at, 2*time.Minute) // the lease of the killed one has expired
	p.controllerFirst = point%2 == 0
	branches, err := p.branches(t.Context())
	must(t, err)
	if moved, ended := strings.Contains(branches, "dbt-sync/"), rowOf(t, p) == dbtsync.Completed; moved != ended {
		t.Fatalf("the sync is completed: %t; the branches are %s", ended, branches)
	}
	must(t, p.run(t.Context()))
	check(t, p)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newPlace creates an account with a deployment, and the DbtSync of a user.
func newPlace(t *testing.T, kind, databaseURL string) place {
	t.Helper()
	at := place{kind: kind, databaseURL: databaseURL, kubeconfig: kubeconfig, namespace: fmt.Sprintf("%s-%d", kind, time.Now().UnixNano())}
	admin := administrator(t)
	d := &v1alpha1.Deployment{Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}}}
	d.Namespace, d.Name, d.Labels = at.namespace, "sales", map[string]string{v1alpha1.LabelID: "7"}
	a := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: at.namespace}, Spec: v1alpha1.AccountSpec{Host: v1alpha1.Host(at.namespace + ".example.com"), Namespace: at.namespace}}
	all := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.namespace}}, a, d}
	if kind != byPush {
		sync := &v1alpha1.DbtSync{Spec: v1alpha1.DbtSyncSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, Source: v1alpha1.DbtSource{Git: &v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git"}},
		}}
		sync.Namespace, sync.Name = at.namespace, "warehouse"
		all = append(all, sync)
	}
	for _, o := range all {
		must(t, admin.Create(t.Context(), o))
	}
	p := newProcess(t, at, 0)
	must(t, p.commitReadme(t.Context()))
	must(t, p.store.Close())
	return at
}

func administrator(t *testing.T) client.Client {
	t.Helper()
	c, err := newClient(kubeconfig)
	must(t, err)
	return c
}

func newProcess(t *testing.T, at place, ahead time.Duration) *process {
	t.Helper()
	p, err := start(t.Context(), at, 0, ahead)
	must(t, err)
	t.Cleanup(func() { _ = p.store.Close() })
	return p
}

// rowOf returns the status of the only row of a sync; empty if there is none.
func rowOf(t *testing.T, p *process) dbtsync.Status {
	t.Helper()
	page, err := p.syncs.List(t.Context(), p.scope(), dbtsync.Filter{}, store.PageRequest{Limit: 10})
	must(t, err)
	switch len(page.Items) {
	case 0:
		return ""
	case 1:
		return page.Items[0].Status
	}
	t.Fatalf("%d syncs", len(page.Items))
	return ""
}

// check checks what is there after the end.
func check(t *testing.T, p *process) {
	t.Helper()
	want := map[string]any{
		"status": dbtsync.Completed, "stage": v1alpha1.DbtStageCompleted, "ready": metav1.ConditionTrue, "commits": "dbt-sync/new 2, main 1",
		"jobs": 1, "policies": 1, "secrets": 1, "events": "Finished dbt sync 1, Started dbt sync 1",
	}
	if p.kind == cancelled {
		want["status"], want["stage"], want["ready"], want["commits"], want["jobs"] = dbtsync.Cancelled, v1alpha1.DbtStageFailed, metav1.ConditionFalse, "main 1", 0
	}
	obj, err := p.sync(t.Context())
	must(t, err)
	branches, err := p.branches(t.Context())
	must(t, err)
	if p.kind == byUser { // its name has the time
		name, rest, _ := strings.Cut(branches, " ")
		if strings.HasPrefix(name, "dbt-sync/git-") && name == obj.Status.Branch {
			branches = "dbt-sync/new " + rest
		}
	}
	var jobs batchv1.JobList
	var policies networkingv1.NetworkPolicyList
	var secrets corev1.SecretList
	for _, list := range []client.ObjectList{&jobs, &policies, &secrets} {
		must(t, p.kube.List(t.Context(), list, client.InNamespace(p.namespace)))
	}
	got := map[string]any{
		"status": rowOf(t, p), "stage": obj.Status.Stage, "ready": ready(obj), "commits": branches,
		"jobs": len(jobs.Items), "policies": len(policies.Items), "secrets": len(secrets.Items), "events": eventsOf(t, p),
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %v, want %v; the status is %+v", name, got[name], value, obj.Status)
		}
	}
	if obj.Status.CompletionTime == nil || obj.Status.SyncJobID == "" || p.kind != cancelled && obj.Status.GeneratedFiles != 1 {
		t.Errorf("%+v", obj.Status)
	}
}

// eventsOf returns the events with their number.
func eventsOf(t *testing.T, p *process) string {
	t.Helper()
	rows, err := p.store.Reader().QueryContext(t.Context(), "SELECT name, COUNT(*) FROM audit_event GROUP BY name ORDER BY name")
	must(t, err)
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var name string
		var n int
		must(t, rows.Scan(&name, &n))
		all = append(all, fmt.Sprintf("%s %d", name, n))
	}
	must(t, rows.Err())
	return strings.Join(all, ", ")
}
