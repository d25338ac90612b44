package model

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for name, test := range map[string]func(w *world){
			"a change is made on a personal branch and committed to its parent":   testDevMode,
			"a personal branch belongs to one caller":                             testOwners,
			"contradicting changes are a conflict that names the files":           testConflict,
			"a commit merges with what the parent has got since":                  testCommitMerges,
			"of concurrent commits none is lost":                                  testConcurrentCommits,
			"of contradicting concurrent commits one is a conflict":               testConcurrentConflict,
			"a branch is created, listed and deleted":                             testBranches,
			"invalid branches are rejected":                                       testInvalidBranches,
			"the children and users of a deleted branch go to its parent":         testDeletedParent,
			"the objects of branches show their parents":                          testShownParents,
			"a branch is merged into its parent":                                  testMerge,
			"a branch is merged into production and deleted":                      testMergeToDefault,
			"a merge deletes the declared Branch of the branch that it deletes":   testMergeDeclared,
			"a merge whose client disconnects deletes the declared Branch":        testDisconnectedMerge,
			"invalid merges are rejected":                                         testInvalidMerges,
			"a pull brings a personal branch up to date":                          testPull,
			"a branch that a push has deleted and created again inherits nothing": testRecreated,
			"a branch that is created meanwhile keeps its owner":                  testCreatedMeanwhile,
			"a live preview is on the personal branch of the token's creator":     testLivePreview,
			"invalid live previews are rejected":                                  testInvalidLivePreviews,
		} {
			t.Run(name, func(t *testing.T) { test(newWorld(t, newDatabase(t))) })
		}
	})
}

func testDevMode(w *world) {
	started := w.call(ada, "POST", "/dev-mode", nil).is(200)
	dev, _ := started.get("branchName").(string)
	if !strings.HasPrefix(dev, "dev-ada-lovelace-main-") || started.get("active") != true || started.get("parentBranch") != "main" {
		w.Fatalf("%s", started.raw)
	}
	if got, want := w.names(), "Created Git branch "+dev+", Entered dev mode "+dev; got != want {
		w.Errorf("events %q, want %q", got, want)
	}
	before := w.head("main")
	w.write(dev, map[string]string{"model/b.yml": "b\n"})
	w.write(dev, map[string]string{"model/b.yml": "b2\n", "model/a.yml": ""})
	w.call(ada, "POST", "/commit", map[string]any{"message": " Add b \n"}).is(200, `"success":true`)
	c := w.commitOf("main")
	if c.Message != "Add b\n" || c.Author.Name != "Ada Lovelace" || c.Author.Email != "ada@example.com" || len(c.ParentHashes) != 1 || c.ParentHashes[0] != before {
		w.Errorf("the commit is %v with the parents %v, want one on %s", c, c.ParentHashes, before)
	}
	if w.file("main", "model/b.yml") != "b2\n" || w.file("main", "model/a.yml") != "" || w.head(dev) != w.head("main") {
		w.Error("the parent does not have the changes, or the personal branch is not at the commit")
	}
	if got, want := w.names(), "Committed and merged changes to data model main"; got != want {
		w.Errorf("events %q, want %q", got, want)
	}
	moved := w.moved
	w.call(ada, "POST", "/commit", map[string]any{}).is(200)
	if w.commitOf("main").Hash != c.Hash || w.moved != moved || w.names() != "" {
		w.Error("a commit without changes has made one")
	}
	w.call(ada, "DELETE", "/dev-mode", nil).is(200, `"success":true`)
	w.call(ada, "DELETE", "/dev-mode", nil).is(200, `"success":true`)
	if got, want := w.names(), "Exited dev mode "+dev; got != want {
		w.Errorf("events %q, want %q", got, want)
	}
	w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
	if again := w.enter(ada, "main"); again != dev {
		w.Errorf("the personal branch is now %q, was %q", again, dev)
	}
	w.write(dev, map[string]string{"model/c.yml": "c\n"})
	w.call(ada, "POST", "/commit", map[string]any{"exitDevMode": true}).is(200)
	w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
	if w.commitOf("main").Message != "Update the data model\n" {
		w.Errorf("the message is %q", w.commitOf("main").Message)
	}
}

func testOwners(w *world) {
	adas, bobs := w.enter(ada, "main"), w.enter(bob, "main")
	if adas == bobs {
		w.Fatalf("both have %q", adas)
	}
	w.write(adas, map[string]string{"model/b.yml": "b\n"})
	w.call(bob, "POST", "/dev-mode", map[string]any{"branchName": adas}).is(403, adas)
	w.call(bob, "POST", "/commit", map[string]any{"branchName": adas}).is(403, adas)
	w.call(bob, "POST", "/merge", map[string]any{"branchName": adas}).is(403, adas)
	w.call(bob, "POST", "/pull", map[string]any{"branchName": adas}).is(403, adas)
	w.call(bob, "POST", "/branches", map[string]any{"name": "x", "from": adas}).is(403, adas)
	w.call(bob, "DELETE", "/branches?branchName="+adas, nil).is(403, adas, "Admin")
	w.call(bob, "POST", "/commit", map[string]any{"branchName": "main"}).is(400, "production branch")
	w.call(ada, "POST", "/dev-mode", map[string]any{"branchName": adas}).is(200, adas)
	w.call(ada, "POST", "/dev-mode", map[string]any{"branchName": "gone"}).is(404, "gone")
	w.call(eve, "DELETE", "/branches?branchName="+adas, nil).is(200)
	w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
	if c := w.commitOf("main"); c.NumParents() != 0 {
		w.Errorf("main has got %s", c)
	}
	w.call(bob, "POST", "/commit", nil).is(200)
}

func testConflict(w *world) {
	dev := w.enter(ada, "main")
	w.write(dev, map[string]string{"model/a.yml": "one\nmine\nthree\n", "model/new.yml": "new\n"})
	w.write("main", map[string]string{"model/a.yml": "one\ntheirs\nthree\n"})
	main, own := w.head("main"), w.head(dev)
	for _, path := range []string{"/commit", "/merge", "/merge-to-default", "/pull"} {
		body := map[string]any{}
		if path == "/pull" {
			body["branchName"] = dev
		}
		w.call(ada, "POST", path, body).is(409, "model/a.yml", "same lines")
		if w.head("main") != main || w.head(dev) != own {
			w.Fatalf("%s has changed a branch", path)
		}
	}
	w.call(ada, "POST", "/commit", map[string]any{"resolveMergeConflict": true}).is(200)
	if w.file("main", "model/a.yml") != "one\nmine\nthree\n" || w.file("main", "model/new.yml") != "new\n" {
		w.Errorf("main has %q", w.file("main", "model/a.yml"))
	}
}

func testCommitMerges(w *world) {
	dev := w.enter(ada, "main")
	w.write(dev, map[string]string{"model/a.yml": "ONE\ntwo\nthree\n"})
	w.write("main", map[string]string{"model/a.yml": "one\ntwo\nTHREE\n", "model/other.yml": "other\n"})
	before := w.head("main")
	w.call(ada, "POST", "/commit", nil).is(200)
	if got := w.file("main", "model/a.yml"); got != "ONE\ntwo\nTHREE\n" || w.file("main", "model/other.yml") != "other\n" {
		w.Errorf("main has %q", got)
	}
	if c := w.commitOf("main"); len(c.ParentHashes) != 1 || c.ParentHashes[0] != before || w.head(dev) != c.Hash {
		w.Errorf("the commit is %v on %v, want one on %s", c, c.ParentHashes, before)
	}
}

func testConcurrentCommits(w *world) {
	adas, bobs := w.enter(ada, "main"), w.enter(bob, "main")
	for i := range 10 {
		file := fmt.Sprintf("model/%d.yml", i)
		w.write(adas, map[string]string{"ada/" + file: "a\n"})
		w.write(bobs, map[string]string{"bob/" + file: "b\n"})
		var statuses [2]int
		var both sync.WaitGroup
		both.Go(func() { statuses[0] = w.call(ada, "POST", "/commit", nil).status })
		both.Go(func() { statuses[1] = w.call(bob, "POST", "/commit", nil).status })
		both.Wait()
		if statuses != [2]int{200, 200} {
			w.Fatalf("round %d: %v", i, statuses)
		}
		if w.file("main", "ada/"+file) != "a\n" || w.file("main", "bob/"+file) != "b\n" {
			w.Fatalf("round %d: a commit is lost", i)
		}
		for own, p := range map[string]*auth.Principal{adas: ada, bobs: bob} {
			w.call(p, "POST", "/pull", map[string]any{"branchName": own}).is(200)
			if w.head(own) != w.head("main") {
				w.Fatalf("round %d: %s is not at the commit of main", i, own)
			}
		}
	}
}

func testConcurrentConflict(w *world) {
	callers := []*auth.Principal{ada, bob}
	for i := range 5 {
		var statuses [2]int
		for _, p := range callers {
			w.write(w.enter(p, "main"), map[string]string{"model/a.yml": fmt.Sprintf("%d by %s\n", i, p.ID)})
		}
		var both sync.WaitGroup
		for c, p := range callers {
			both.Go(func() { statuses[c] = w.call(p, "POST", "/commit", nil).status })
		}
		both.Wait()
		winner := 0
		if statuses[0] != 200 {
			winner = 1
		}
		if statuses[winner] != 200 || statuses[1-winner] != 409 {
			w.Fatalf("round %d: %v, want one 200 and one 409", i, statuses)
		}
		if got, want := w.file("main", "model/a.yml"), fmt.Sprintf("%d by %s\n", i, callers[winner].ID); got != want {
			w.Fatalf("round %d: main has %q, want %q", i, got, want)
		}
		w.call(callers[1-winner], "POST", "/commit", map[string]any{"resolveMergeConflict": true}).is(200)
	}
}

func testRecreated(w *world) {
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "feature", "from": "next", "activate": true}).is(200)
	w.delete("feature")
	w.call(ada, "POST", "/branches", map[string]any{"name": "other"}).is(200) // removes the rows of "feature"
	w.write("feature", map[string]string{"x.yml": "x\n"})
	w.call(ada, "GET", "/branches", nil).is(200, `"name":"feature","parentBranch":"main"`)
	w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
	if role := (&tree{production: "main"}).roleOf("devel"); role != v1alpha1.BranchShared {
		w.Errorf("devel is %s", role)
	}
}

// interposed is a database that calls a function before its next transaction.
type interposed struct {
	content.Database
	before func()
}

func (d *interposed) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	if before := d.before; before != nil {
		d.before = nil
		before()
	}
	return d.Database.Tx(ctx, work)
}

// testCreatedMeanwhile lets another caller create branches after a creation has read them, and before it is stored.
func testCreatedMeanwhile(w *world) {
	bobs := ""
	w.repositories.DB = &interposed{w.repositories.DB, func() {
		w.call(bob, "POST", "/branches", map[string]any{"name": "dev-bob"}).is(200)
		bobs = w.enter(bob, "main")
	}}
	w.enter(ada, "main")
	if bobs == "" {
		w.Fatal("nothing was created in between")
	}
	w.call(bob, "POST", "/commit", nil).is(200) // the branch is still active
	w.call(bob, "POST", "/dev-mode", map[string]any{"branchName": "dev-bob"}).is(200)
	w.call(ada, "POST", "/dev-mode", map[string]any{"branchName": "dev-bob"}).is(403)
}

// childURL makes the test binary a process that writes and commits files in a database, and reports
// each on standard output.
const childURL = "QUOIN_MODEL_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(argument string) error{childURL: commitFiles, changeURL: changeAndStop})
}

// process is a testing.TB of a child process: a failure ends it.
type process struct{ testing.TB }

func (process) Helper()                  {}
func (process) Cleanup(func())           {}
func (process) Context() context.Context { return context.Background() }

func (process) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (p process) Fatalf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }
func (p process) Error(args ...any)                 { p.Fatal(args...) }
func (p process) Errorf(format string, args ...any) { p.Fatalf(format, args...) }

// fileOf returns the path of a file of commitFiles.
func fileOf(i int) string { return fmt.Sprintf("model/%04d.yml", i) }

// count returns the number of files of a branch, which are those of commitFiles without a gap.
func (w *world) count(branch string) int {
	n := 0
	for w.file(branch, fileOf(n)) != "" {
		n++
	}
	return n
}

func commitFiles(url string) error {
	w := openWorld(process{}, url)
	dev := w.enter(ada, "main")
	for i := w.count(dev); ; i++ {
		w.write(dev, map[string]string{fileOf(i): "x\n"})
		fmt.Println("written", i)
		w.call(ada, "POST", "/commit", map[string]any{"message": fileOf(i)}).is(200)
		fmt.Println("committed", i)
	}
}

// TestACrashLosesNoCommit kills a process at any point of a commit: what it acknowledged is there, and
// the branch is the old or the new one.
func TestACrashLosesNoCommit(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		url := newDatabase(t)
		t.Run("before", func(t *testing.T) { openWorld(t, url).write("main", map[string]string{"model/a.yml": "a\n"}) })
		for round := range 4 {
			committed, lines := -1, 0
			storetest.KillChild(t, childURL, url, func(line string) bool {
				lines++
				_, _ = fmt.Sscanf(line, "committed %d", &committed)
				return lines >= 3+2*round+round%2
			})
			t.Run(fmt.Sprint("round ", round), func(t *testing.T) { openWorld(t, url).checkCommits(committed) })
		}
	})
}

// checkCommits checks the branches after a crash of commitFiles; committed is the last file of which it
// acknowledged the commit, or -1.
func (w *world) checkCommits(committed int) {
	main := w.count("main")
	if main < committed+1 {
		w.Fatalf("main has %d files, %d are committed", main, committed+1)
	}
	if message := w.commitOf("main").Message; main > 0 && strings.TrimSpace(message) != fileOf(main-1) {
		w.Errorf("the last commit of %d files is %q", main, message)
	}
	dev := w.enter(ada, "main")
	if pending := w.count(dev) - main; pending != 0 && pending != 1 {
		w.Errorf("the personal branch has %d files, main has %d", w.count(dev), main)
	}
	if w.head(dev) != w.head("main") && w.commitOf(dev).ParentHashes[0] != w.head("main") {
		w.Error("the personal branch does not continue from main")
	}
}

// adasToken is a deploy token that ada has created, bobsToken one of bob, and gitToken a Git token of ada.
var (
	adasToken = deployToken("deploy-a", "User:ada", "ada@example.com")
	bobsToken = deployToken("deploy-b", "ApiKey:ci", "ci")
	gitToken  = deployToken("git-a", "", "")
)

func deployToken(id, creator, name string) *auth.Principal {
	return &auth.Principal{
		Kind: auth.KindDeployToken, ID: id, Name: "deploy token of sales", Creator: creator, CreatorName: name,
		Grants: access.On([]string{"sales"}, v1alpha1.PermissionSchemaRead, v1alpha1.PermissionSchemaUpdate, v1alpha1.PermissionSecretsManage),
	}
}

func issueToken(_ context.Context, e *v1alpha1.Environment, securityContext map[string]any, lifetime int64) (string, error) {
	return fmt.Sprintf("%s %v %d", e.Name, securityContext, lifetime), nil
}

const deployPrefix = "/build/deploy/7"

// addFile adds a file to an upload.
func (w *world) addFile(p *auth.Principal, query, transaction, path, text string) *answer {
	w.Helper()
	body := &bytes.Buffer{}
	form := multipart.NewWriter(body)
	w.must(form.WriteField("transaction", transaction))
	w.must(form.WriteField("fileName", path))
	part, err := form.CreateFormFile("file", "file")
	w.must(err)
	_, err = io.WriteString(part, text)
	w.must(err)
	w.must(form.Close())
	r := httptest.NewRequest(http.MethodPost, deployPrefix+"/upload-file"+query, body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	return w.send(p, r)
}

// startLive starts an upload for a live preview.
func (w *world) startLive(p *auth.Principal) map[string]any {
	w.Helper()
	transaction, _ := w.call(p, "POST", deployPrefix+"/start-upload?live=true", nil).is(200).get("transaction").(map[string]any)
	return transaction
}

// listed returns the files of the end of an upload.
func listed(text string) map[string]any {
	sum := sha1.Sum([]byte(text))
	return map[string]any{"model/a.yml": map[string]any{"hash": hex.EncodeToString(sum[:])}}
}

// live uploads model/a.yml for a live preview, as the development server does.
func (w *world) live(p *auth.Principal, text string) (lastHash string) {
	w.Helper()
	w.call(p, "GET", deployPrefix+"/files?live=true", nil).is(200)
	branch, _ := w.call(p, "GET", "/devmode/7/status", nil).is(200).get("branchName").(string)
	key := client.ObjectKey{Namespace: "demo", Name: "sales-" + slug(branch)}
	if apierrors.IsNotFound(w.kube.Get(context.Background(), key, &v1alpha1.Environment{})) {
		w.putBranch(branch, w.head("main").String(), metav1.ConditionTrue, v1alpha1.ReasonAsleep, "Asleep")
	}
	transaction := w.startLive(p)
	id, _ := transaction["id"].(string)
	w.addFile(p, "?live=true", id, "model/a.yml", text).is(200)
	lastHash, _ = w.call(p, "POST", deployPrefix+"/finish-upload?live=true", map[string]any{"transaction": transaction, "files": listed(text)}).is(200).get("lastHash").(string)
	return lastHash
}

// putBranch makes the environment of a branch, which serves a commit.
func (w *world) putBranch(branch, commit string, status metav1.ConditionStatus, reason, message string) *v1alpha1.Environment {
	w.Helper()
	e := environmentAt("sales-"+slug(branch), commit, status, reason, message)
	e.Spec.IdleSeconds, e.Status.CredentialsSecret = ptr.To(int32(60)), "credentials"
	w.put(e)
	return e
}

func (w *world) personalEnvironments() {
	w.deployment.Spec.OnDemand = &v1alpha1.OnDemand{Roles: []v1alpha1.OnDemandRole{"personal"}}
}

func testLivePreview(w *world) {
	w.personalEnvironments()
	main, text := w.head("main"), w.file("main", "model/a.yml")
	status := func(hash string) *answer {
		return w.call(adasToken, "GET", "/devmode/7/status?lastHash="+hash, nil).is(200)
	}
	// Before the first upload, the page needs the address already.
	before := status("").is(200, `"status":"loading"`, "dev mode is not active")
	if w.names() != "" || w.head("dev-x") != w.head("dev-y") {
		w.Error("a question has changed something")
	}
	dev, _ := before.get("branchName").(string)
	hash := w.live(adasToken, "live\n")
	if got, want := w.names(), "Created Git branch "+dev+", Entered dev mode "+dev+", Started uploading files "+dev+", Finished uploading files "+dev; got != want {
		w.Errorf("events %q, want %q", got, want)
	}
	if before.get("deploymentUrl") != "https://sales.data.demo.example.com/dev-mode/"+dev {
		w.Errorf("%s", before.raw)
	}
	if w.head(dev).String() != hash || w.file(dev, "model/a.yml") != "live\n" || w.head("main") != main || w.file("main", "model/a.yml") != text {
		w.Errorf("%s is at %s, want %s; main is at %s, was at %s", dev, w.head(dev), hash, w.head("main"), main)
	}
	if c := w.commitOf(dev); len(c.ParentHashes) != 1 || c.ParentHashes[0] != main {
		w.Errorf("the parents of the upload are %v", c.ParentHashes)
	}
	// The branch is that which ada enters, and the upload has woken its environment.
	if w.enter(ada, "main") != dev || w.names() != "" {
		w.Error("ada has another personal branch, or was not in dev mode")
	}
	e := &v1alpha1.Environment{}
	w.must(w.kube.Get(context.Background(), client.ObjectKey{Namespace: "demo", Name: "sales-" + slug(dev)}, e))
	if e.Annotations[v1alpha1.AnnotationWakeRequested] == "" {
		w.Error("the environment was not woken")
	}
	testPreviewStates(w, dev, hash, main.String(), status)

	again := w.live(adasToken, "live again\n")
	w.putBranch(dev, again, metav1.ConditionTrue, "Succeeded", "")
	status(again).is(200, "running")
	status(hash).is(200, "running") // it is in the history
	w.call(ada, "POST", "/commit", nil).is(200)
	status(again).is(200, `"running"`) // the same files
	status(strings.Repeat("0", 40)).is(200, "loading", "does not have the upload")
	w.names()
	got := w.call(adasToken, "POST", "/devmode/7/token", map[string]any{"tenant": "x"}).is(200).get("token")
	if got != "sales-"+slug(dev)+" map[tenant:x] 3600" {
		w.Errorf("the token is %v", got)
	}
	w.call(adasToken, "POST", "/devmode/7/token", nil).is(200, "map[]")
	// In dev mode on another branch, that is the one.
	w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200)
	other := w.enter(ada, "next")
	w.live(adasToken, "other\n")
	if w.file(other, "model/a.yml") != "other\n" || w.head(dev).String() == w.head(other).String() {
		w.Errorf("the upload is not on %s", other)
	}
	// The creator of another token has another branch.
	w.call(bobsToken, "GET", "/devmode/7/status", nil).is(200, "dev-ci-main")
	w.live(bobsToken, "bob's\n")
	if w.file(other, "model/a.yml") != "other\n" || w.file(w.enter(bob, "main"), "model/a.yml") != "bob's\n" {
		w.Error("the upload of bob's token is not on his branch only")
	}
}

// testPreviewStates: the status of an upload by the state of the environment.
func testPreviewStates(w *world, dev, hash, before string, status func(string) *answer) {
	w.Helper()
	for _, c := range []struct {
		commit    string
		condition metav1.ConditionStatus
		reason    string
		want      []string
	}{
		{hash, metav1.ConditionTrue, "Succeeded", []string{`"running"`}},
		{before, metav1.ConditionTrue, "Succeeded", []string{`"inProgress"`, "does not have the upload yet"}},
		{hash, metav1.ConditionFalse, "RollingOut", []string{`"inProgress"`, "why"}},
		{hash, metav1.ConditionFalse, v1alpha1.ReasonModelBroken, []string{`"loading"`, "why"}},
		{hash, metav1.ConditionTrue, v1alpha1.ReasonAsleep, []string{`"loading"`, "asleep"}},
	} {
		w.putBranch(dev, c.commit, c.condition, c.reason, "why")
		status(hash).is(200, c.want...)
		status("").is(200, c.want...)
	}
	w.putBranch(dev, hash, metav1.ConditionFalse, "RollingOut", "why")
	w.deployment.Spec.Suspend = ptr.To(true)
	status(hash).is(200, `"loading"`, "suspended")
	w.deployment.Spec.Suspend = nil
	w.must(w.kube.Delete(context.Background(), &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "sales-" + slug(dev)}}))
	status(hash).is(200, `"inProgress"`, "is created")
	w.deployment.Spec.OnDemand = nil
	status(hash).is(200, `"loading"`, "spec.onDemand.roles")
	w.call(adasToken, "POST", "/devmode/7/token", nil).is(409, "spec.onDemand.roles")
	w.personalEnvironments()
	w.putBranch(dev, hash, metav1.ConditionTrue, "Succeeded", "")
}

func testInvalidLivePreviews(w *world) {
	w.personalEnvironments()
	main := w.head("main")
	live := w.startLive(adasToken)
	plain, _ := w.call(adasToken, "POST", deployPrefix+"/start-upload", nil).is(200).get("transaction").(map[string]any)
	liveID, _ := live["id"].(string)
	plainID, _ := plain["id"].(string)
	finish := func(p *auth.Principal, query string, transaction any) *answer {
		return w.call(p, "POST", deployPrefix+"/finish-upload"+query, map[string]any{"transaction": transaction, "files": listed("live\n")})
	}
	const both = "the same in all requests of an upload"
	for name, c := range map[string]struct {
		got    *answer
		status int
		word   string
	}{
		"a file of a live preview without live":  {w.addFile(adasToken, "", liveID, "model/a.yml", "x"), 400, both},
		"a file of another upload with live":     {w.addFile(adasToken, "?live=true", plainID, "model/a.yml", "x"), 400, both},
		"the end of a live preview without live": {finish(adasToken, "", live), 400, both},
		"the end of another upload with live":    {finish(adasToken, "?live=true", plain), 400, both},
		"a live preview of a branch":             {w.call(adasToken, "POST", deployPrefix+"/start-upload?live=true&branchName=main", nil), 400, "branchName"},
		"the files of a branch with live":        {w.call(adasToken, "GET", deployPrefix+"/files?live=true&branchName=main", nil), 400, "branchName"},
		"a branch in the body with live":         {w.call(adasToken, "POST", "/data-model/upload/start?live=true", map[string]any{"branchName": "main"}), 400, "branchName"},
		"live that is no boolean":                {w.call(adasToken, "POST", deployPrefix+"/start-upload?live=x", nil), 400, "live"},
		"an upload of another caller":            {finish(bobsToken, "?live=true", live), 404, "another caller"},
		"the transaction of its creator's own":   {finish(ada, "?live=true", live), 404, "another caller"},
		"a Git token":                            {w.call(gitToken, "POST", deployPrefix+"/start-upload?live=true", nil), 403, "a deploy token"},
		"the status of a Git token":              {w.call(gitToken, "GET", "/devmode/7/status", nil), 403, "a deploy token"},
		"a data token of a Git token":            {w.call(gitToken, "POST", "/devmode/7/token", nil), 403, "a deploy token"},
		"a data token without DeploymentUpdate":  {w.call(bob, "POST", "/devmode/7/token", nil), 403, "DeploymentUpdate"},
		"a security context that is no object":   {w.send(adasToken, jsonRequest("/devmode/7/token", `["secret"]`)), 400, "body"},
		"a hash that is none":                    {w.call(adasToken, "GET", "/devmode/7/status?lastHash=x", nil), 400, "lastHash"},
	} {
		if c.got.is(c.status, c.word); strings.Contains(string(c.got.raw), "secret") {
			w.Errorf("%s: %s", name, c.got.raw)
		}
	}
	w.addFile(adasToken, "?live=true", liveID, "model/a.yml", "live\n").is(200)
	w.putBranch(w.enter(ada, "main"), main.String(), metav1.ConditionTrue, "Succeeded", "")
	first := finish(adasToken, "?live=true", live).is(200).get("lastHash")
	if again := finish(adasToken, "?live=true", live).is(200).get("lastHash"); again != first {
		w.Errorf("finished twice: %v, %v", first, again)
	}
	w.addFile(adasToken, "?live=true", liveID, "model/a.yml", "x").is(409, "finished")
	if w.head("main") != main {
		w.Error("production has moved")
	}
	// A personal branch that was deleted meanwhile is not made again.
	live = w.startLive(adasToken)
	dev := w.enter(ada, "main")
	w.call(ada, "DELETE", "/branches?branchName="+dev, nil).is(200)
	finish(adasToken, "?live=true", live).is(404, "does not exist")
	if !w.head(dev).IsZero() || w.head("main") != main {
		w.Error("the end of the upload has made a branch, or production has moved")
	}
}

// jsonRequest returns a request with a JSON body.
func jsonRequest(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}
