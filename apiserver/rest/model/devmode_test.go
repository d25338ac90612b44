package model

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
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
			"a branch is merged into its parent":                                  testMerge,
			"a branch is merged into production and deleted":                      testMergeToDefault,
			"invalid merges are rejected":                                         testInvalidMerges,
			"a pull brings a personal branch up to date":                          testPull,
			"a branch that a push has deleted and created again inherits nothing": testRecreated,
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
