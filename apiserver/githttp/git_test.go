package githttp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/processors"
	"github.com/quoin-dev/quoin/internal/turns"
)

// A user clones an empty repository, pushes to it, and others clone what was pushed.
func TestCloneAndPush(t *testing.T) {
	onBoth(t, func(w *world) {
		dir := w.clone()
		if head := w.git(dir, "symbolic-ref", "HEAD"); head != "refs/heads/main" {
			w.Errorf("the HEAD of an empty repository is %s", head)
		}
		commit := w.commit(dir, "model/cubes/orders.yml", "cubes: []\n")
		w.git(dir, "push", "-q", "origin", "main")
		if heads := w.branches(); len(heads) != 1 || heads["main"] != commit {
			w.Errorf("branches %v, want main at %s", heads, commit)
		}
		w.mu.Lock()
		if len(w.events) != 1 || w.events[0].Name != "Created Git branch" || w.events[0].Object.Name != "main" ||
			w.events[0].Deployment.ID != "1" || !strings.Contains(string(w.events[0].Changes), commit) || w.moved != 1 {
			w.Errorf("events %+v, %d notices of a push", w.events, w.moved)
		}
		w.mu.Unlock()
		for _, version := range []string{"0", "1", "2"} {
			other := w.clone("-c", "protocol.version="+version)
			if got := w.git(other, "rev-parse", "HEAD"); got != commit {
				w.Errorf("version %s: the clone is at %s", version, got)
			}
			w.git(other, "fsck", "--strict")
		}
	})
}

// A pull transfers what is new, in both versions of the protocol.
func TestPull(t *testing.T) {
	onBoth(t, func(w *world) {
		dir := w.seeded(5)
		for _, version := range []string{"0", "2"} {
			other := w.clone()
			commit := w.commit(dir, "model/views/v"+version+".yml", "views: []\n")
			w.git(dir, "push", "-q", "origin", "main")
			local := w.commit(other, "local"+version+".txt", "not pushed")
			out := w.git(other, "-c", "protocol.version="+version, "fetch", "--progress", "origin")
			if got := w.git(other, "rev-parse", "origin/main"); got != commit {
				w.Errorf("version %s: origin/main is at %s, want %s", version, got, commit)
			}
			// The commit, the trees /, model and views, and the file.
			if !strings.Contains(out, "Sending 5 objects") && !strings.Contains(out, "Sending 4 objects") {
				w.Errorf("version %s: a fetch of one commit prints\n%s", version, out)
			}
			w.git(other, "rebase", "-q", "origin/main")
			if local == w.git(other, "rev-parse", "HEAD") {
				w.Error("nothing was rebased")
			}
			w.git(other, "fsck", "--strict")
		}
	})
}

// A shallow clone is extended, and pushed from.
func TestShallowClone(t *testing.T) {
	w := onSQLite(t)
	w.seeded(6)
	for _, version := range []string{"0", "2"} {
		dir := w.clone("--depth=2", "-c", "protocol.version="+version)
		count := func(want string) {
			w.Helper()
			if got := w.git(dir, "rev-list", "--count", "origin/main"); got != want {
				w.Errorf("version %s: %s commits, want %s", version, got, want)
			}
			w.git(dir, "fsck")
		}
		count("2")
		w.git(dir, "fetch", "-q", "--depth=4")
		count("4")
		w.git(dir, "fetch", "-q", "--depth=1")
		count("1")
		commit := w.commit(dir, "from-shallow-"+version+".txt", "text")
		w.git(dir, "push", "-q", "origin", "main:shallow-"+version)
		if got := w.branches()["shallow-"+version]; got != commit {
			w.Errorf("version %s: a push from a shallow clone is at %q", version, got)
		}
		w.git(dir, "fetch", "-q", "--unshallow")
		count("6")
	}
}

// Branches are created and deleted. Nothing is forced, and production is not deleted.
func TestBranches(t *testing.T) {
	onBoth(t, func(w *world) {
		dir := w.seeded(2)
		main := w.branches()["main"]
		w.git(dir, "push", "-q", "origin", "main:feature/x", "main:feature/y")
		w.git(dir, "push", "-q", "origin", "--delete", "feature/y")
		if heads := w.branches(); len(heads) != 2 || heads["feature/x"] != main {
			w.Errorf("branches %v", heads)
		}
		w.refused("the branch of production cannot be deleted", dir, "push", "origin", "--delete", "main")
		w.git(dir, "commit", "-q", "--amend", "-m", "rewritten")
		w.refused("non-fast-forward", dir, "push", "--force", "origin", "main")
		w.refused("only branches can be pushed", dir, "push", "origin", "main:refs/notes/x")
		w.git(dir, "tag", "-a", "v1", "-m", "first", "origin/main")
		w.refused("only branches can be pushed", dir, "push", "origin", "v1")
		w.refused("cannot exist beside", dir, "push", "origin", "origin/main:refs/heads/feature/x/y")
		w.refused("atomic", dir, "push", "--atomic", "--force", "origin", "main", "origin/main:refs/heads/z")
		w.refused("non-fast-forward", dir, "push", "--force", "origin", "main", "origin/main:refs/heads/w")
		if heads := w.branches(); len(heads) != 3 || heads["main"] != main || heads["w"] != main {
			w.Errorf("branches %v after rejected pushes", heads)
		}
		w.git(dir, "push", "-q", "-o", "ci.skip", "origin", "origin/main:refs/heads/with-option")
	})
}

// A commit that the client has and that was deleted here is ignored, although it is in the cache.
func TestFetchAfterCollection(t *testing.T) {
	onBoth(t, func(w *world) {
		dir := w.seeded(1)
		other := w.clone()
		w.git(dir, "checkout", "-q", "-b", "side")
		side := w.commit(dir, "side.txt", "side")
		w.git(dir, "push", "-q", "origin", "side")
		// Another replica has read the commit only.
		w.server.Repositories = &repository.Repositories{DB: w.store, Record: w.server.Repositories.Record}
		session := w.server.Repositories.Session(w.Context(), target{account: acme(), deployment: deployments[0]}.scope())
		if _, err := session.EncodedObject(plumbing.CommitObject, plumbing.NewHash(side)); err != nil {
			w.Fatal(err)
		}
		w.git(dir, "push", "-q", "origin", "--delete", "side")
		if err := repository.Collect(w.Context(), w.store, time.Now().Add(48*time.Hour)); err != nil {
			w.Fatal(err)
		}
		w.commit(other, "new.txt", "new")
		w.git(other, "push", "-q", "origin", "main")
		w.git(dir, "fetch", "-q", "origin")
		if got := w.git(dir, "rev-parse", "origin/main"); got != w.branches()["main"] {
			w.Errorf("origin/main is %s", got)
		}
	})
}

// Tags that are pushed with a branch are rejected, and the branch is not. git sends similar tags as differences from each other.
func TestPushWithTags(t *testing.T) {
	onBoth(t, func(w *world) {
		dir := w.seeded(1)
		for _, tag := range []string{"v1", "v1.2", "v1.2.3"} {
			w.git(dir, "tag", "-a", tag, "-m", "Release 1.2.3 of the sales model")
		}
		w.refused("only branches can be pushed", dir, "push", "--follow-tags", "origin", "main:next")
		if heads := w.branches(); heads["next"] != heads["main"] {
			w.Errorf("branches %v", heads)
		}
	})
}

// Of two pushes at the same time, one wins and the other is told.
func TestConcurrentPushes(t *testing.T) {
	onBoth(t, func(w *world) {
		w.seeded(1)
		const pushers = 4
		dirs := make([]string, pushers)
		for i := range dirs {
			dirs[i] = w.clone()
			w.commit(dirs[i], fmt.Sprintf("by%d.txt", i), "text")
		}
		var running sync.WaitGroup
		outputs := make([]string, pushers)
		failures := make([]error, pushers)
		for i, dir := range dirs {
			running.Go(func() { outputs[i], failures[i] = run(w.T, dir, "push", "origin", "main") })
		}
		running.Wait()
		won := ""
		for i, err := range failures {
			switch {
			case err == nil && won == "":
				won = w.git(dirs[i], "rev-parse", "HEAD")
			case err == nil:
				w.Error("two pushes have won")
			case !strings.Contains(outputs[i], "rejected"):
				w.Errorf("the other push prints\n%s", outputs[i])
			}
		}
		if got := w.branches()["main"]; won == "" || got != won {
			w.Errorf("main is at %s, the push of %q won", got, won)
		}
	})
}

// An account whose pushes are slow does not keep others from pushing.
func TestPushesOfAnotherAccount(t *testing.T) {
	w := onSQLite(t)
	dir := w.seeded(1)
	release, err := wait(t.Context(), w.server.pushes, "globex")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := wait(ended, w.server.pushes, "globex"); !errors.Is(err, context.Canceled) {
		t.Errorf("an account has all places for pushes: %v", err)
	}
	w.commit(dir, "model/cubes/other.yml", "cubes: []\n")
	w.git(dir, "push", "-q", "origin", "main")
}

// Fetches of an account wait while others of it have its places, and those of another account do not.
func TestPlacesOfFetches(t *testing.T) {
	w := onSQLite(t)
	w.seeded(1)
	clone := func() error {
		out, err := run(t, w.TempDir(), "clone", "-q", w.address(writer), filepath.Join(w.TempDir(), "clone"))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	for name, tc := range map[string]struct {
		places *turns.Places[string]
		each   int
	}{"sent": {w.server.fetches, maxAccountFetches}, "determined": {w.server.histories, maxAccountHistories}} {
		hold := func(account string) (release func()) {
			var held []func()
			for range tc.each {
				release, err := wait(t.Context(), tc.places, account)
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, release)
			}
			return func() {
				for _, release := range held {
					release()
				}
			}
		}
		release := hold("globex")
		if err := clone(); err != nil {
			t.Errorf("%s: another account has its places: %v", name, err)
		}
		release()
		release = hold("acme")
		done := make(chan error, 1)
		go func() { done <- clone() }()
		for tc.places.Waiting() == 0 {
			select {
			case err := <-done:
				t.Fatalf("%s: the fetch did not wait: %v", name, err)
			default:
				runtime.Gosched()
			}
		}
		release()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Pushes and fetches take turns for the processors with long work of other accounts.
func TestTurnsForProcessors(t *testing.T) {
	w := onSQLite(t)
	dir := w.seeded(1)
	w.commit(dir, "model/cubes/other.yml", "cubes: []\n")
	for _, work := range [][]string{
		{"push", "-q", "origin", "main"},
		{"clone", "-q", w.address(writer), filepath.Join(t.TempDir(), "clone")},
	} {
		var held []*fairsemaphore.Turn
		for range max(1, processors.Count-1) {
			turn, err := fairsemaphore.Processors.Begin(t.Context(), "globex")
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, turn)
		}
		done := make(chan error, 1)
		go func() {
			_, err := run(t, dir, work...)
			done <- err
		}()
		for fairsemaphore.Processors.Waiting("acme") == 0 {
			select {
			case err := <-done:
				t.Fatalf("%s did not wait: %v", work[0], err)
			default:
				runtime.Gosched()
			}
		}
		for _, turn := range held {
			turn.End()
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", work[0], err)
		}
	}
}

// Trees that the data plane must not see are rejected, and the branch is unchanged.
func TestRejectedTrees(t *testing.T) {
	w := onSQLite(t)
	dir := w.seeded(1)
	main := w.branches()["main"]
	cases := map[string]func(){
		"is a symbolic link": func() {
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "passwd.yml")); err != nil {
				w.Fatal(err)
			}
		},
		"is a submodule": func() {
			w.git(dir, "update-index", "--add", "--cacheinfo", "160000,"+main+",module")
		},
		"differs only in case": func() {
			w.write(dir, "model/A.yml", "1")
			w.write(dir, "model/a.yml", "2")
		},
	}
	for want, prepare := range cases {
		w.git(dir, "reset", "-q", "--hard", main)
		w.git(dir, "clean", "-qfd")
		prepare()
		if want != "is a submodule" {
			w.git(dir, "add", "-A")
		}
		w.git(dir, "commit", "-q", "-m", "bad")
		w.refused(want, dir, "push", "origin", "HEAD:main")
	}
	if got := w.branches()["main"]; got != main {
		w.Errorf("main is at %s", got)
	}
}

// A push of many files arrives in chunks. With deltas, too.
func TestLargePush(t *testing.T) {
	onBoth(t, func(w *world) {
		dir := w.clone()
		for i := range 300 {
			w.write(dir, fmt.Sprintf("model/d%d/c%d.yml", i%20, i), strings.Repeat(fmt.Sprintf("name: %d\n", i*7919), 400))
		}
		w.git(dir, "add", "-A")
		w.git(dir, "commit", "-q", "-m", "many")
		w.git(dir, "push", "-q", "origin", "main")
		for i := range 300 {
			w.write(dir, fmt.Sprintf("model/d%d/c%d.yml", i%20, i), strings.Repeat(fmt.Sprintf("name: %d\n", i*7919), 400)+"changed: true\n")
		}
		w.git(dir, "add", "-A")
		commit := w.git(dir, "stash", "create")
		w.git(dir, "commit", "-q", "-m", "changed")
		w.git(dir, "push", "-q", "origin", "main")
		if commit == "" {
			w.Error("nothing has changed")
		}
		other := w.clone()
		w.git(other, "fsck", "--strict")
		if diff := w.git(other, "diff", "--stat", "HEAD~1", "--", "model/d1/c1.yml"); !strings.Contains(diff, "1 insertion") {
			w.Errorf("difference %q", diff)
		}
	})
}

// The controller and the pods read over the internal address with Quoin's own client.
func TestOwnClient(t *testing.T) {
	onBoth(t, func(w *world) {
		dir := w.seeded(3)
		old := w.git(dir, "rev-parse", "HEAD~2")
		url := w.web.URL + "/repositories/acme/sales-1.git"
		creds, err := git.ParseCredentials(url, map[string][]byte{"username": []byte("quoin"), "password": []byte(internal)})
		if err != nil {
			w.Fatal(err)
		}
		own := git.New(git.Options{AllowInsecure: true})
		refs, head, err := own.Refs(w.Context(), url, creds)
		if err != nil || head != "main" || len(refs) != 1 || refs[0].Commit != w.branches()["main"] {
			w.Errorf("refs %v, default %q: %v", refs, head, err)
		}
		for commit, files := range map[string]int{old: 1, w.branches()["main"]: 3} {
			result, err := own.Fetch(w.Context(), git.FetchOptions{
				URL: url, Creds: creds, Commit: commit, Ref: "main", Path: "model", Dir: filepath.Join(w.TempDir(), "model"),
			})
			if err != nil || result.Files != files {
				w.Errorf("fetch of %s: %+v, %v", commit, result, err)
			}
		}
		_, err = own.Fetch(w.Context(), git.FetchOptions{
			URL: url, Creds: creds, Commit: strings.Repeat("1", 40), Dir: filepath.Join(w.TempDir(), "model"),
		})
		if err == nil || !strings.Contains(err.Error(), "not found") {
			w.Errorf("fetch of an unknown commit: %v", err)
		}
	})
}
