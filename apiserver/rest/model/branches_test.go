package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

func testBranches(w *world) {
	created := w.call(ada, "POST", "/branches", map[string]any{"name": "feature/orders"}).is(200)
	if created.get("active") != false || created.get("branchName") != "feature/orders" || created.get("parentBranch") != "main" {
		w.Errorf("%s", created.raw)
	}
	if w.head("feature/orders") != w.head("main") || w.names() != "Created Git branch feature/orders" || w.moved != 1 {
		w.Error("the branch is not at the commit of main, has no event, or the controller was not told")
	}
	w.write("feature/orders", map[string]string{"model/o.yml": "o\n"})
	created = w.call(ada, "POST", "/branches", map[string]any{"name": "next", "from": "feature/orders", "enterDevMode": true}).is(200)
	if created.get("active") != true || created.get("parentBranch") != "feature/orders" || w.head("next") != w.head("feature/orders") {
		w.Errorf("%s", created.raw)
	}
	// It is active without a fork: files are written on personal branches.
	w.call(ada, "POST", "/commit", nil).is(400, `the caller has \"next\" active, a shared branch`)
	dev := w.enter(ada, "next")
	w.write(dev, map[string]string{"model/d.yml": "d\n"})
	w.call(ada, "POST", "/branches", map[string]any{"name": "saved", "from": dev}).is(200, `"parentBranch":"next"`)
	if w.head("saved") != w.head(dev) {
		w.Error("a branch from a personal branch is not at its commit")
	}
	mine := w.call(ada, "POST", "/branches", map[string]any{"name": "dev-mine", "activate": true}).is(200).get("branchName")
	w.write("dev-mine", map[string]string{"model/m.yml": "m\n"})
	w.call(ada, "POST", "/commit", nil).is(200)
	if mine != "dev-mine" || w.file("main", "model/m.yml") == "" {
		w.Error("a personal branch with a name of the caller's does not commit to its parent")
	}
	w.call(ada, "GET", "/branches", nil).is(200, `"name":"next","parentBranch":"feature/orders"`, `"name":"`+dev+`","parentBranch":"next"`)
	w.names()
	for _, query := range []string{"feature/orders", "next&removeOnUpstream=true"} {
		w.call(ada, "DELETE", "/branches?branchName="+query, nil).is(200, `"success":true`)
	}
	if got, want := w.names(), "Deleted Git branch feature/orders, Deleted Git branch next"; got != want || !w.head("next").IsZero() {
		w.Errorf("events %q, want %q", got, want)
	}
}

func testInvalidBranches(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	before := w.moved
	for name, status := range map[string]int{
		"": 400, "a b": 400, "a..b": 400, "a/": 400, "/a": 400, "a.lock": 400, "@": 400, "-a": 400, "HEAD": 400, "a~1": 400, ".a": 400, "a//b": 400,
		strings.Repeat("x", 245): 400, "main": 409, "next": 409, "Next": 409, "next/x": 409,
	} {
		w.call(ada, "POST", "/branches", map[string]any{"name": name}).is(status, "name")
	}
	w.call(ada, "POST", "/branches", map[string]any{"name": "x", "from": "gone"}).is(400, "from", "gone")
	w.call(ada, "DELETE", "/branches?branchName=main", nil).is(400, "production branch")
	w.call(ada, "DELETE", "/branches?branchName=gone", nil).is(404, "gone")
	w.call(ada, "DELETE", "/branches", nil).is(400, "branchName")
	if w.moved != before {
		w.Error("a rejected request has moved a branch")
	}
}

func testDeletedParent(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "release"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "next", "from": "release"}).is(200)
	w.call(bob, "POST", "/branches", map[string]any{"name": "y", "from": "next", "activate": true}).is(200)
	dev := w.enter(ada, "next")
	w.write(dev, map[string]string{"model/d.yml": "d\n"})
	w.call(eve, "POST", "/dev-mode", map[string]any{"branchName": "next"}).is(200)
	w.call(eve, "POST", "/branches", map[string]any{"name": "z", "activate": true}).is(200)
	w.call(ada, "DELETE", "/branches?branchName=next", nil).is(200)
	w.call(ada, "GET", "/branches", nil).is(200, `"name":"y","parentBranch":"release"`, `"name":"`+dev+`","parentBranch":"release"`)
	w.call(ada, "POST", "/commit", nil).is(200)
	if w.file("release", "model/d.yml") == "" || w.file("main", "model/d.yml") != "" {
		w.Error("the changes are not on the parent of the deleted branch")
	}
	w.call(ada, "DELETE", "/branches?branchName=z", nil).is(200)
	w.call(eve, "POST", "/commit", nil).is(400, "not in dev mode") // its active branch is deleted
}

// The objects show the parents by which branches are merged, also after a parent was deleted.
func testShownParents(w *world) {
	held := &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "sales-y"}, Spec: v1alpha1.BranchSpec{Name: "y", Role: v1alpha1.BranchShared, ParentBranch: "main"},
	}
	w.must(w.kube.Create(w.Context(), held))
	shown := func() string {
		w.must(w.kube.Get(w.Context(), client.ObjectKeyFromObject(held), held))
		return held.Spec.ParentBranch
	}
	w.call(ada, "POST", "/branches", map[string]any{"name": "release"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "next", "from": "release"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "last", "from": "next"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "y", "from": "last"}).is(200)
	if got := shown(); got != "last" {
		w.Errorf("the parent of a new branch is %q", got)
	}
	w.call(ada, "DELETE", "/branches?branchName=last", nil).is(200)
	if got := shown(); got != "next" {
		w.Errorf("after the deletion of the parent, the parent is %q", got)
	}
	w.call(ada, "POST", "/merge", map[string]any{"branchName": "next", "deleteBranch": true}).is(200)
	if got := shown(); got != "release" {
		w.Errorf("after the merge of the parent, the parent is %q", got)
	}
}

func testMerge(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	w.write("next", map[string]string{"model/n.yml": "n\n"})
	w.write("main", map[string]string{"model/m.yml": "m\n"})
	main, next := w.head("main"), w.head("next")
	w.names()
	w.call(ada, "POST", "/merge", map[string]any{"branchName": "next", "message": "Release"}).is(200, `"merged":true`, `"branchDeleted":false`)
	c := w.commitOf("main")
	if c.Message != "Release\n" || len(c.ParentHashes) != 2 || c.ParentHashes[0] != main || c.ParentHashes[1] != next || w.head("next") != next {
		w.Errorf("the merge is %v of %v", c, c.ParentHashes)
	}
	if w.file("main", "model/n.yml") == "" || w.file("main", "model/m.yml") == "" || w.names() != "Merged changes to data model main" {
		w.Error("main does not have both changes, or there is no event")
	}
	w.call(ada, "POST", "/merge", map[string]any{"branchName": "next"}).is(200, `"merged":true`)
	if w.head("main") != c.Hash || w.names() != "" {
		w.Error("a branch is merged twice")
	}
	dev := w.enter(ada, "next")
	w.write(dev, map[string]string{"model/1.yml": "1\n"})
	w.write(dev, map[string]string{"model/2.yml": "2\n"})
	w.call(ada, "POST", "/merge", map[string]any{"squashCommits": true, "switchToParentBranch": true, "deleteBranch": true}).is(200, `"branchDeleted":true`)
	if c := w.commitOf("next"); len(c.ParentHashes) != 1 || c.ParentHashes[0] != next || c.Message != "Merge branch '"+dev+"' into 'next'\n" || !w.head(dev).IsZero() {
		w.Errorf("the squashed merge is %v on %v", c, c.ParentHashes)
	}
	w.call(ada, "POST", "/commit", nil).is(400, `\"next\" active`)
	w.call(ada, "POST", "/merge", map[string]any{"switchToParentBranch": true}).is(200)
	w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
	if w.file("main", "model/2.yml") == "" {
		w.Error("the active branch was not merged")
	}
}

func testMergeToDefault(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "release"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "next", "from": "release"}).is(200)
	w.write("next", map[string]string{"model/n.yml": "n\n"})
	w.call(ada, "POST", "/merge-to-default", map[string]any{"branchName": "next", "removeBranchAfterMerge": false}).is(200, `"branchDeleted":false`)
	if w.file("main", "model/n.yml") == "" || w.file("release", "model/n.yml") != "" || w.head("next").IsZero() {
		w.Error("the branch is not merged into production, or is deleted")
	}
	dev := w.enter(ada, "next")
	w.write(dev, map[string]string{"model/d.yml": "d\n"})
	w.call(ada, "POST", "/merge-to-default", map[string]any{"message": "Ship"}).is(200, `"branchDeleted":true`)
	if w.file("main", "model/d.yml") == "" || !w.head(dev).IsZero() || w.commitOf("main").Message != "Ship\n" {
		w.Error("the active branch is not merged into production and deleted")
	}
	w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
	id := int64(0)
	branches, err := w.Branches(w.deployment)
	w.must(err)
	for _, b := range branches {
		if b.Spec.Name == "next" {
			id = b.Status.ID
		}
	}
	w.call(ada, "POST", "/merge-to-default", map[string]any{"branchId": id}).is(200, `"branchDeleted":true`)
	if !w.head("next").IsZero() || w.head("main").IsZero() {
		w.Error("the branch with the id is not deleted")
	}
}

// Without the branch, nothing else deletes a Branch that a user has declared.
func testMergeDeclared(w *world) {
	for path, option := range map[string]string{"/merge": "deleteBranch", "/merge-to-default": "removeBranchAfterMerge"} {
		w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
		declared := w.declare("next")
		w.call(ada, "POST", path, map[string]any{"branchName": "next", option: true}).is(200, `"branchDeleted":true`)
		if err := w.kube.Get(w.Context(), client.ObjectKeyFromObject(declared), declared); !apierrors.IsNotFound(err) {
			w.Fatalf("%s: the declared Branch is kept, or cannot be read: %v", path, err)
		}
	}
}

// The merge is stored, and cannot be repeated without the branch.
func testDisconnectedMerge(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	declared := w.declare("next")
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.onMoved = cancel
	w.callWith(ctx, ada, "POST", "/merge", map[string]any{"branchName": "next", "deleteBranch": true})
	if err := w.kube.Get(w.Context(), client.ObjectKeyFromObject(declared), declared); !apierrors.IsNotFound(err) {
		w.Errorf("the declared Branch is kept, or cannot be read: %v", err)
	}
}

func testInvalidMerges(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	w.write("island", map[string]string{"x.yml": "x\n"})
	before := w.head("main")
	for _, path := range []string{"/merge", "/merge-to-default"} {
		w.call(ada, "POST", path, nil).is(400, "branchName")
		w.call(ada, "POST", path, map[string]any{"branchName": "main"}).is(400, "main", "production")
		w.call(ada, "POST", path, map[string]any{"branchName": "gone"}).is(404, "gone")
		w.call(ada, "POST", path, map[string]any{"branchId": 4711}).is(404, "4711")
		w.call(ada, "POST", path, map[string]any{"branchName": "next", "branchId": 1}).is(400, "branchName", "branchId")
		w.call(ada, "POST", path, map[string]any{"branchName": "island"}).is(409, "no commit in common")
	}
	if w.head("main") != before {
		w.Error("a rejected merge has changed main")
	}
}

func testPull(w *world) {
	w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":false`, "nothing to pull")
	dev := w.enter(ada, "main")
	w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":false`)
	w.write("main", map[string]string{"model/m.yml": "m\n"})
	w.names()
	w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":true`)
	if w.head(dev) != w.head("main") || w.names() != "Pulled changes to data model "+dev {
		w.Error("a branch without changes is not at the commit of its parent, or there is no event")
	}
	w.write(dev, map[string]string{"model/d.yml": "d\n"})
	w.write("main", map[string]string{"model/m.yml": "m2\n"})
	w.call(ada, "POST", "/pull", map[string]any{"branchName": dev}).is(200, `"buildTriggered":true`)
	if w.file(dev, "model/d.yml") == "" || w.file(dev, "model/m.yml") != "m2\n" || w.commitOf(dev).NumParents() != 2 {
		w.Error("the parent is not merged into the branch")
	}
	w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":false`)
	w.call(ada, "POST", "/commit", nil).is(200)
	if c := w.commitOf("main"); c.NumParents() != 1 || w.file("main", "model/d.yml") == "" {
		w.Errorf("after the pull, the commit is %v", c)
	}
	w.call(ada, "POST", "/pull", map[string]any{"branchName": "gone"}).is(404, "gone")
}

// killedChanges are requests of ada, after branchOff. Each is killed at every point.
var killedChanges = map[string]struct {
	method, path string
	body         map[string]any
}{
	"commit":  {"POST", "/commit", map[string]any{"branchName": "dev-ada", "message": "Add b"}},
	"merge":   {"POST", "/merge", map[string]any{"branchName": "feature", "switchToParentBranch": true}},
	"squash":  {"POST", "/merge", map[string]any{"branchName": "feature", "squashCommits": true, "deleteBranch": true}},
	"default": {"POST", "/merge-to-default", map[string]any{"branchName": "feature"}},
	"pull":    {"POST", "/pull", map[string]any{"branchName": "dev-ada"}},
	"write":   {"PUT", "/data-model/files", map[string]any{"branchName": "dev-ada", "files": []map[string]any{{"path": "model/w.yml", "content": "w"}}}},
	"create":  {"POST", "/branches", map[string]any{"name": "other", "from": "feature", "activate": true}},
	"delete":  {"DELETE", "/branches?branchName=feature", nil},
	"enter":   {"POST", "/dev-mode", map[string]any{"branchName": "feature"}},
}

// branchOff makes the personal branch dev-ada, which is active, and the branch feature. Both and main
// have changes of their own.
func (w *world) branchOff() {
	w.call(ada, "POST", "/branches", map[string]any{"name": "feature"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "dev-ada", "activate": true}).is(200)
	w.write("dev-ada", map[string]string{"model/b.yml": "b\n"})
	w.write("feature", map[string]string{"model/c.yml": "c\n"})
	w.write("main", map[string]string{"model/d.yml": "d\n"})
}

// state describes the branches, with the number of their commits and their files, and the dev mode of ada.
func (w *world) state() string {
	w.Helper()
	s := w.session(w.Context())
	all, err := s.Branches()
	w.must(err)
	text := &strings.Builder{}
	for _, b := range all {
		fmt.Fprintf(text, "%s: ", b.Name)
		head, err := object.GetCommit(s, b.Commit)
		w.must(err)
		commits := 0
		w.must(object.NewCommitPreorderIter(head, nil, nil).ForEach(func(*object.Commit) error { commits++; return nil }))
		files, err := modeltree.Files(s, b.Commit, "")
		w.must(err)
		for _, f := range files {
			fmt.Fprintf(text, "%s=%s ", f.Path, f.Hash)
		}
		fmt.Fprintf(text, "after %d commits\n", commits)
	}
	mode, err := w.devMode.State(w.Context(), w.scope(), "User:ada")
	w.must(err)
	return text.String() + "active: " + mode.Active
}

// changeURL makes the test binary a process that sends a request of killedChanges, and stops at a point.
const changeURL = "QUOIN_MODEL_CHANGE_URL"

// change sends a request of killedChanges, and returns the number of points.
func (w *world) change(name string, stop int) int {
	d := &contenttest.Stepping{Database: w.repositories.DB, Stop: stop}
	w.repositories.DB, w.devMode.DB = d, d
	c := killedChanges[name]
	w.call(ada, c.method, c.path, c.body).is(200)
	w.repositories.DB, w.devMode.DB = d.Database, d.Database
	return d.Points
}

func changeAndStop(argument string) error {
	stop, values, err := contenttest.ParseArguments(argument)
	if err == nil {
		openWorld(process{}, values[1]).change(values[0], stop)
	}
	return err
}

// TestChangesAreKilled kills the server at each point of a request that changes branches: every branch,
// and the dev mode of the caller, is the old or the new one, all together. The request can be repeated,
// and then has the effect of one.
func TestChangesAreKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, name := range slices.Sorted(maps.Keys(killedChanges)) {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, newDatabase(t))
				w.branchOff()
				before := w.state()
				points := w.change(name, 0)
				after := w.state()
				if before == after || points < 2 {
					t.Fatalf("nothing was changed at %d points: %s", points, after)
				}
				for point := 1; point <= points; point++ {
					url := newDatabase(t)
					t.Run(fmt.Sprint("prepare ", point), func(t *testing.T) { newWorld(t, url).branchOff() })
					storetest.KillChild(t, changeURL, contenttest.Arguments(point, name, url), func(line string) bool { return line == contenttest.Stopped })
					t.Run(fmt.Sprint("killed at ", point), func(t *testing.T) { openWorld(t, url).checkChange(name, before, after, point == points) })
				}
			})
		}
	})
}

// checkChange checks the branches after a crash in a request of killedChanges.
func (w *world) checkChange(name, before, after string, complete bool) {
	got := w.state()
	if got != after && (complete || got != before) {
		w.Fatalf("the state is\n%s\nwant\n%s\nor\n%s", got, before, after)
	}
	c := killedChanges[name]
	again := w.call(ada, c.method, c.path, c.body)
	if again.status != 200 && (got != after || again.status/100 != 4) {
		w.Errorf("the repetition is %d: %s", again.status, again.raw)
	}
	if got := w.state(); got != after {
		w.Errorf("after the repetition the state is\n%s\nwant\n%s", got, after)
	}
}

// cachedBranches is a Catalog with Branches as the cache has them: without managed fields.
type cachedBranches struct {
	Catalog
	all []*v1alpha1.Branch
}

func (c cachedBranches) Branches(*v1alpha1.Deployment) ([]*v1alpha1.Branch, error) {
	return c.all, nil
}

// A declared branch that a GitOps tool applies is not deleted: the tool would create it again.
func TestDeclaredBranchesOfGitOpsAreNotDeleted(t *testing.T) {
	cached := &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "sales-next"}, Spec: v1alpha1.BranchSpec{Name: "next", Role: v1alpha1.BranchShared},
	}
	live := cached.DeepCopy()
	live.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "argocd-controller", Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.GroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:name":{},"f:role":{}}}`),
	}}
	k8s := fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithReturnManagedFields().WithObjects(live).Build()
	a := &api{Options: Options{Kube: kube.NewClient(k8s, k8s, "test"), Catalog: cachedBranches{all: []*v1alpha1.Branch{cached}}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // no cache tells of a deletion
	defer cancel()
	_, err := a.removeDeclared(ctx, &v1alpha1.Deployment{}, &RemoveBranchInput{Name: "next"})
	if err == nil || !strings.Contains(err.Error(), "argocd-controller") {
		t.Errorf("error %v", err)
	}
	// That is not waited for after the branch was deleted from the repository.
	ctx = (&rest.Scope{Deployment: &v1alpha1.Deployment{}}).With(ctx)
	if isKept, err := a.deleteDeclaration(ctx, "next"); !isKept || err != nil {
		t.Errorf("kept: %t, error %v", isKept, err)
	}
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(live), live); apierrors.IsNotFound(err) {
		t.Error("the Branch was deleted")
	}
}
