package remote_test

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
)

func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Files are read and written, and go from a personal branch to production: each change is a commit on the
// host, by the caller.
func TestDevModeOnARemote(t *testing.T) {
	onBoth(t, func(w *world) {
		w.call(ada, "GET", "/data-model/files?withContent=true", nil).is(200, "/model/a.yml", `one\ntwo\nthree\n`)
		dev := w.enter(ada, "main")
		if w.host.head(dev) == "" || w.host.head(dev) != w.host.head("main") {
			t.Fatalf("the host has %s", w.host.heads())
		}
		w.write(ada, "model/b.yml", "b\n").is(200)
		w.call(ada, "POST", "/data-model/files/rename", map[string]any{"files": []map[string]any{{"path": "model/b.yml", "newPath": "model/c.yml"}}}).is(200)
		w.write(ada, "model/gone.yml", "x\n").is(200)
		w.call(ada, "DELETE", "/data-model/files", map[string]any{"files": []map[string]any{{"path": "model/gone.yml"}}}).is(200)
		if w.host.file(dev, "model/c.yml") != "b" || w.host.file(dev, "model/b.yml")+w.host.file(dev, "model/gone.yml") != "" {
			t.Error("the host does not have the changes of the files")
		}
		before := w.moved
		w.call(ada, "POST", "/commit", map[string]any{"message": "Add c"}).is(200)
		if got := w.host.git("log", "-1", "--format=%an <%ae> %s", "main"); got != "Ada Lovelace <ada@example.com> Add c" || w.host.commits("main") != 2 {
			t.Errorf("%d commits, the last is %s", w.host.commits("main"), got)
		}
		if w.moved == before || w.host.head(dev) != w.host.head("main") {
			t.Error("the controller was not told, or the personal branch does not continue from the commit")
		}
		w.call(ada, "POST", "/commit", nil).is(200)
		if w.host.commits("main") != 2 {
			t.Error("a commit without changes has made one")
		}
		w.call(bob, "GET", "/data-model/files?branchName=main", nil).is(200, "/model/c.yml")
		w.call(ada, "DELETE", "/dev-mode", nil).is(200)
		w.call(ada, "POST", "/commit", nil).is(400, "not in dev mode")
		w.host.git("fsck", "--strict")
	})
}

// Branches are created, merged and deleted on the host.
func TestBranchesOfARemote(t *testing.T) {
	onBoth(t, func(w *world) {
		w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(200, `"parentBranch":"main"`)
		w.call(ada, "POST", "/branches", map[string]any{"name": "next"}).is(409, "exists")
		dev := w.enter(ada, "next")
		w.write(ada, "model/n.yml", "n\n").is(200)
		w.host.push("next", map[string]string{"model/p.yml": "p\n"})
		w.call(ada, "POST", "/pull", nil).is(200, `"buildTriggered":true`)
		if w.host.file(dev, "model/p.yml") != "p" || w.host.file(dev, "model/n.yml") != "n" {
			t.Error("the parent is not merged into the personal branch")
		}
		w.call(ada, "POST", "/merge", map[string]any{"deleteBranch": true, "switchToParentBranch": true}).is(200, `"branchDeleted":true`)
		if w.host.head(dev) != "" || w.host.file("next", "model/n.yml") != "n" {
			t.Errorf("the host has %s", w.host.heads())
		}
		w.call(ada, "POST", "/merge-to-default", map[string]any{"branchName": "next", "removeBranchAfterMerge": false}).is(200)
		if w.host.file("main", "model/n.yml") != "n" {
			t.Error("production does not have the changes")
		}
		w.call(ada, "DELETE", "/branches?branchName=next", nil).is(409, "removeOnUpstream")
		w.call(ada, "DELETE", "/branches?branchName=main&removeOnUpstream=true", nil).is(400, "production")
		w.call(ada, "DELETE", "/branches?branchName=next&removeOnUpstream=true", nil).is(200)
		if w.host.head("next") != "" {
			t.Error("the branch is still on the host")
		}
		w.call(ada, "GET", "/data-model/files?branchName=next", nil).is(404, "next")
	})
}

// uploadModel uploads a model with the paths of a protocol and returns the response to the finish.
func uploadModel(w *world, paths map[string]string, files map[string]string) (id any, finish func() *answer) {
	w.Helper()
	var started struct {
		Transaction json.RawMessage `json:"transaction"`
	}
	w.must(json.Unmarshal(w.send(ada, "POST", paths["start"], nil).is(200).raw, &started))
	hashes := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		w.form(paths["file"], map[string]string{"transaction": string(started.Transaction), "fileName": path}, files[path]).is(200)
		hashes[path] = map[string]any{"hash": sha1Of(files[path])}
	}
	return started.Transaction, func() *answer {
		return w.send(ada, "POST", paths["finish"], map[string]any{"transaction": started.Transaction, "files": hashes})
	}
}

// Both protocols upload a model: one commit on the host, also if the request is repeated.
func TestUploadsToARemote(t *testing.T) {
	protocols := map[string]map[string]string{
		"newer":  {"start": prefix + "/data-model/upload/start", "file": prefix + "/data-model/upload/file", "finish": prefix + "/data-model/upload/finish"},
		"legacy": {"start": "/build/deploy/7/start-upload", "file": "/build/deploy/7/upload-file", "finish": "/build/deploy/7/finish-upload"},
	}
	onBoth(t, func(w *world) {
		for name, paths := range protocols {
			w.call(ada, "GET", "/data-model/file-hashes", nil).is(200)
			before := w.host.commits("main")
			files := map[string]string{"model/a.yml": "one\n", "model/" + name + ".yml": name + "\n"}
			_, finish := uploadModel(w, paths, files)
			hash := finish().is(200).get("lastHash")
			again := finish().is(200).get("lastHash")
			if hash != w.host.head("main") || again != hash || w.host.commits("main") != before+1 {
				t.Errorf("%s: %v and %v, the host has %s", name, hash, again, w.host.heads())
			}
			if w.host.file("main", "model/"+name+".yml") != name {
				t.Errorf("%s: the host does not have the files", name)
			}
			w.call(ada, "GET", "/data-model/file-hashes", nil).is(200, sha1Of(name+"\n"))
		}
		w.host.git("fsck", "--strict")
	})
}

// The model is in a folder of the repository: other files are left alone.
func TestFolderOfARemote(t *testing.T) {
	onBoth(t, func(w *world) {
		w.host.push("main", map[string]string{"README.md": "hello\n"})
		w.deployment.Spec.Model.Git.Path = "./model/"
		w.call(ada, "GET", "/data-model/files", nil).is(200, `"path":"/a.yml"`)
		w.enter(ada, "main")
		w.write(ada, "b.yml", "b\n").is(200)
		w.call(ada, "POST", "/commit", nil).is(200)
		if w.host.file("main", "model/b.yml") != "b" || w.host.file("main", "README.md") != "hello" {
			t.Error("the files are not in the folder, or others are changed")
		}
	})
}

// Another client pushes between the plan of a change and its push: the change is planned again, and
// contradicting changes are told.
func TestPushInBetween(t *testing.T) {
	onBoth(t, func(w *world) {
		w.enter(ada, "main")
		w.write(ada, "model/b.yml", "b\n").is(200)
		w.host.oncePushed(func() { w.host.push("main", map[string]string{"model/other.yml": "other\n"}) })
		w.call(ada, "POST", "/commit", nil).is(200)
		if w.host.file("main", "model/b.yml") != "b" || w.host.file("main", "model/other.yml") != "other" || w.host.commits("main") != 3 {
			t.Errorf("%d commits: one of the changes is lost", w.host.commits("main"))
		}
		w.write(ada, "model/a.yml", "ada\n").is(200)
		w.host.oncePushed(func() { w.host.push("main", map[string]string{"model/a.yml": "other\n"}) })
		w.recorded()
		w.call(ada, "POST", "/commit", nil).is(409, "model/a.yml", "nothing was changed")
		if w.host.file("main", "model/a.yml") != "other" {
			t.Error("the change of the other client is overwritten")
		}
		if got := w.recorded(); !strings.Contains(got, "attempted") || strings.Contains(got, "succeeded") {
			t.Errorf("events %s", got)
		}
		_, finish := uploadModel(w, map[string]string{
			"start": prefix + "/data-model/upload/start", "file": prefix + "/data-model/upload/file", "finish": prefix + "/data-model/upload/finish",
		}, map[string]string{"model/a.yml": "uploaded\n"})
		w.host.oncePushed(func() { w.host.push("main", map[string]string{"model/late.yml": "late\n"}) })
		finish().is(200)
		if w.host.file("main", "model/a.yml") != "uploaded" || w.host.file("main", "model/late.yml") != "" {
			t.Error("the upload is not the whole model")
		}
	})
}

// A forced push by another client moves a branch to an unrelated commit: the mirror follows.
func TestForcedPush(t *testing.T) {
	onBoth(t, func(w *world) {
		w.call(ada, "GET", "/data-model/files", nil).is(200)
		w.host.git("update-ref", "-d", "refs/heads/main")
		w.host.push("main", map[string]string{"model/new.yml": "new\n"})
		dev := w.enter(ada, "main")
		w.write(ada, "model/b.yml", "b\n").is(200)
		if w.host.file(dev, "model/new.yml") != "new" || w.host.file(dev, "model/a.yml") != "" {
			t.Error("the mirror has not followed")
		}
	})
}

// A branch that was deleted on the host is created there again after its objects were deleted from the mirror.
func TestBranchIsRestored(t *testing.T) {
	onBoth(t, func(w *world) {
		commit := w.host.push("feature", map[string]string{"model/f.yml": "f\n"})
		w.call(ada, "GET", "/data-model/files?branchName=feature", nil).is(200, "/model/f.yml")
		w.host.git("update-ref", "-d", "refs/heads/feature")
		w.later(time.Minute)
		w.call(ada, "GET", "/data-model/files?branchName=feature", nil).is(404)
		db, ok := w.db.(*store.Store)
		if !ok {
			t.Fatalf("the database is %T", w.db)
		}
		w.must(repository.Collect(t.Context(), db, time.Now().Add(48*time.Hour)))
		w.host.git("update-ref", "refs/heads/feature", commit)
		w.later(time.Minute)
		w.call(ada, "GET", "/data-model/files?branchName=feature", nil).is(200, "/model/f.yml")
		w.enter(ada, "feature")
		w.write(ada, "model/b.yml", "b\n").is(200)
	})
}

// A burst of reads reads the host once, and reads without a change write nothing.
func TestBurstOfReads(t *testing.T) {
	onBoth(t, func(w *world) {
		w.call(ada, "GET", "/data-model/files", nil).is(200)
		w.host.count("")
		var readers sync.WaitGroup
		for range 20 {
			readers.Go(func() { w.call(ada, "GET", "/data-model/files", nil).is(200) })
		}
		readers.Wait()
		if n := w.host.count("info/refs"); n > 0 {
			t.Errorf("%d reads of the host", n)
		}
	})
}

// Two accounts name the same URL; one has no access. Neither sees branches or objects of the other.
func TestAccountsShareNothing(t *testing.T) {
	onBoth(t, func(w *world) {
		w.call(ada, "GET", "/data-model/files", nil).is(200, "/model/a.yml")
		other := newWorld(t, w.host, w.db, "a2")
		other.deployment.Spec.Model.Git.SecretRef = nil
		other.call(ada, "GET", "/data-model/files", nil).is(403, "unauthorized")
		other.call(ada, "POST", "/dev-mode", nil).is(403)
		w.host.onRequest(func(rw http.ResponseWriter, _ *http.Request) bool {
			http.Error(rw, "down", http.StatusServiceUnavailable)
			return true
		})
		third := newWorld(t, w.host, w.db, "a3")
		third.call(ada, "GET", "/data-model/files", nil).is(502, "503")
	})
}

// A model in a ConfigMap is not changed over REST.
func TestConfigMapModels(t *testing.T) {
	onBoth(t, func(w *world) {
		w.deployment.Spec.Model = w.configMap()
		w.call(ada, "POST", "/dev-mode", nil).is(409, "ConfigMap", "kubectl")
		w.call(ada, "GET", "/data-model/files", nil).is(409, "ConfigMap")
	})
}
