package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// changeURL makes the test binary a process that sends a request of killedChanges, and stops at a point.
const changeURL = "QUOIN_REMOTE_CHANGE_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(arguments string) error{changeURL: changeAndStop})
}

// process is a testing.TB outside of a test.
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

func (p process) Errorf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }

// killedChanges are requests of ada, after branchOff. Each is killed at every point. An upload has several
// requests: id is that of its transaction if the client has received it, and received is called with it.
var killedChanges = map[string]func(w *world, id string, received func(id string)) *answer{
	"commit": func(w *world, _ string, _ func(string)) *answer {
		return w.call(ada, "POST", "/commit", map[string]any{"branchName": "dev-ada", "message": "Add b"})
	},
	"merge": func(w *world, _ string, _ func(string)) *answer {
		return w.call(ada, "POST", "/merge", map[string]any{"branchName": "feature", "switchToParentBranch": true})
	},
	"upload": uploadOnce,
}

// uploadOnce uploads a model to main as a client does: with the id of its transaction, it continues.
func uploadOnce(w *world, id string, received func(id string)) *answer {
	if id == "" {
		var started struct {
			Transaction json.RawMessage `json:"transaction"`
		}
		w.must(json.Unmarshal(w.send(ada, "POST", prefix+"/data-model/upload/start", nil).is(200).raw, &started))
		id = string(started.Transaction)
		received(id)
	}
	files := map[string]string{"model/a.yml": "uploaded\n", "model/u.yml": "u\n"}
	hashes := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if a := w.form(prefix+"/data-model/upload/file", map[string]string{"transaction": id, "fileName": path}, files[path]); a.status != 200 && a.status != 409 {
			return a // 409: the upload is finished
		}
		hashes[path] = map[string]any{"hash": sha1Of(files[path])}
	}
	return w.send(ada, "POST", prefix+"/data-model/upload/finish", map[string]any{"transaction": json.RawMessage(id), "files": hashes})
}

// branchOff makes the personal branch dev-ada, which is active, and the branch feature. Both and main have
// changes of their own.
func (w *world) branchOff() {
	w.Helper()
	w.call(ada, "POST", "/branches", map[string]any{"name": "feature"}).is(200)
	w.call(ada, "POST", "/branches", map[string]any{"name": "dev-ada", "activate": true}).is(200)
	w.write(ada, "model/b.yml", "b\n").is(200)
	w.host.push("feature", map[string]string{"model/c.yml": "c\n"})
	w.host.push("main", map[string]string{"model/d.yml": "d\n"})
}

// state describes the branches of the host, with the number of their commits and their files.
func (h *host) state() string {
	h.Helper()
	var text strings.Builder
	for _, line := range strings.Split(h.heads(), "\n") {
		name, _, _ := strings.Cut(line, " ")
		fmt.Fprintf(&text, "%s: %d commits, tree %s\n", name, h.commits(name), h.git("rev-parse", "refs/heads/"+name+"^{tree}"))
	}
	return text.String()
}

// active returns the branch that ada has active in dev mode.
func (w *world) active() string {
	w.Helper()
	state, err := (&devmode.DevMode{DB: w.db}).State(w.Context(), w.scope(), "User:ada")
	w.must(err)
	return state.Active
}

// prepared returns a host and a database after branchOff. No process has the database open.
func prepared(t testing.TB, database string) *host {
	t.Helper()
	s, h := open(t, database), newHost(t)
	newWorld(t, h, s, "a1").branchOff()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return h
}

// change sends a request of killedChanges. It returns the number of points, which are before and after the
// commit of each transaction and before each request to the host, and the branch that ada has active.
func change(t testing.TB, name, database string, h *host, stop int, received func(id string)) (points int, active string) {
	s := open(t, database)
	defer func() { _ = s.Close() }()
	d := &contenttest.Stepping{Database: s, Stop: stop}
	w := newWorld(t, h, d, "a1")
	transport, _ := http.DefaultTransport.(*http.Transport)
	before := transport.Proxy
	transport.Proxy = func(*http.Request) (*url.URL, error) { // it is asked before each request
		d.Point()
		return nil, nil
	}
	defer func() { transport.Proxy = before }()
	killedChanges[name](w, "", received).is(200)
	return d.Points, w.active()
}

func changeAndStop(arguments string) error {
	stop, values, err := contenttest.ParseArguments(arguments)
	if err == nil {
		h := &host{TB: process{}, dir: values[2], url: values[3]}
		change(process{}, values[0], values[1], h, stop, func(id string) { fmt.Println(id) })
	}
	return err
}

// TestChangesOfRemotesAreKilled kills the server at each transaction of a request that changes branches on
// the host, and before each request to the host. The branches there are the old or the new ones, all
// together. The request can be repeated, and then has the effect of one, and the mirror has what the host
// has.
func TestChangesOfRemotesAreKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, name := range slices.Sorted(maps.Keys(killedChanges)) {
			t.Run(name, func(t *testing.T) {
				database := newDatabase(t)
				h := prepared(t, database)
				before := h.state()
				points, active := change(t, name, database, h, 0, func(string) {})
				k := &killed{name: name, before: before, after: h.state(), active: active}
				if before == k.after || points < 6 {
					t.Fatalf("nothing was changed at %d points: %s", points, k.after)
				}
				moved := 0
				for point := 1; point <= points; point++ {
					t.Run(fmt.Sprint("killed at ", point), func(t *testing.T) {
						if k.check(t, newDatabase(t), point) {
							moved++
						}
					})
				}
				if moved == 0 || moved == points {
					t.Errorf("after %d of %d points the branches had moved: the push is not among them", moved, points)
				}
			})
		}
	})
}

// killed is a request that is killed, with the states of the host before and after it.
type killed struct{ name, before, after, active string }

// check kills a process at a point of the request, and repeats the request. It reports whether the branches
// had moved.
func (k *killed) check(t *testing.T, database string, point int) (moved bool) {
	t.Helper()
	h, id := prepared(t, database), ""
	storetest.KillChild(t, changeURL, contenttest.Arguments(point, k.name, database, h.dir, h.url), func(line string) bool {
		if line != contenttest.Stopped {
			id = line
		}
		return line == contenttest.Stopped
	})
	got := h.state()
	if got != k.before && got != k.after {
		t.Fatalf("the host has\n%s\nwant\n%s\nor\n%s", got, k.before, k.after)
	}
	moved = got == k.after
	w := newWorld(t, h, open(t, database), "a1")
	again := killedChanges[k.name](w, id, func(string) {})
	if again.status != 200 && (!moved || again.status/100 != 4) {
		t.Errorf("the repetition is %d: %s", again.status, again.raw)
	}
	if got := h.state(); got != k.after {
		t.Errorf("after the repetition the host has\n%s\nwant\n%s", got, k.after)
	}
	if active := w.active(); again.status == 200 && active != k.active {
		t.Errorf("after the repetition %q is active, want %q", active, k.active)
	}
	w.later(time.Minute)
	w.call(ada, "GET", "/data-model/files?branchName=main", nil).is(200)
	w.unchanged(h.heads())
	h.git("fsck", "--strict")
	return moved
}
