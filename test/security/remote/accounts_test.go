package remote_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/gitmirror"
)

// attack has requests of an account that hang.
type attack struct {
	hanging atomic.Int64
	// arrived has a value for each request that has begun to hang.
	arrived chan struct{}
	release chan struct{}
	once    sync.Once
	callers sync.WaitGroup
}

// hang makes a host hang at the requests whose address or body has a text.
func (h *host) hang(t *testing.T, text string) *attack {
	a := &attack{arrived: make(chan struct{}, 1000), release: make(chan struct{})}
	t.Cleanup(a.end)
	h.set(func() {
		h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			if !strings.Contains(r.URL.RequestURI()+string(body), text) {
				return false
			}
			a.hanging.Add(1)
			defer a.hanging.Add(-1)
			a.arrived <- struct{}{}
			select {
			case <-a.release:
			case <-r.Context().Done():
			}
			return true
		}
	})
	return a
}

// end releases the requests, and waits for their callers.
func (a *attack) end() {
	a.once.Do(func() { close(a.release) })
	a.callers.Wait()
}

// TestHangingHostsOfOneAccount: an account has twenty deployments on a host that hangs: at the list of the
// branches, in a download, or in a push. It holds the places of one account, and requests of another one
// are answered meanwhile.
func TestHangingHostsOfOneAccount(t *testing.T) {
	for text, tt := range map[string]struct {
		method, path string
		most         int64
	}{
		"service=git-upload-pack":  {"GET", "/data-model/files", 4},
		"command=ls-refs":          {"GET", "/data-model/files", 4},
		"command=fetch":            {"GET", "/data-model/files", 1},
		"service=git-receive-pack": {"POST", "/dev-mode", 2},
	} {
		t.Run(text, func(t *testing.T) {
			w, hostile, good := newWorld(t, gitmirror.Timeouts{}), newHost(t), newHost(t)
			w.uses("mallory", hostile.url, basic())
			w.uses("victim", good.url, basic())
			attack := hostile.hang(t, text)
			ctx, leave := context.WithCancel(t.Context())
			for i := range 20 {
				attack.callers.Go(func() { w.callOf(ctx, "mallory", fmt.Sprint(i+1), tt.method, tt.path, nil) })
			}
			for range tt.most {
				<-attack.arrived
			}
			w.call("victim", "GET", "/data-model/files", nil).is(200, "/a.yml")
			w.enter("victim")
			for i := range 3 {
				w.write("victim", fmt.Sprint(i)).is(200)
			}
			if n := attack.hanging.Load(); n != tt.most {
				t.Errorf("the account holds %d places, want %d", n, tt.most)
			}
			leave()
			attack.end()
		})
	}
}
