package git_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/deployment"
	"github.com/quoin-dev/quoin/internal/git"
)

// hangingServer accepts connections and never answers; it counts those that are open.
func hangingServer(t *testing.T) (url string, open func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	var mu sync.Mutex
	var conns []net.Conn
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				count.Add(-1)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return "http://" + listener.Addr().String() + "/a.git", func() int { return int(count.Load()) }
}

// object returns a deployment of an account with its model in Git.
func object(account, name, url string) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{}
	d.Namespace, d.Name = account, name
	d.Spec.Model.Git = &v1alpha1.GitSource{URL: url}
	return d
}

// withoutDeadline returns a context that ends when another one is cancelled, and not at its deadline.
func withoutDeadline(ctx context.Context) context.Context {
	endless, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	return endless
}

// TestHangingRemotesOfOneAccount: a tenant creates a hundred deployments whose Git server
// accepts connections and never answers, and changes their URL again and again. Tenants with a
// working server rely on their remotes being read meanwhile: here the hanging fetches have no timeout, so that no place becomes free.
func TestHangingRemotesOfOneAccount(t *testing.T) {
	hanging, open := hangingServer(t)
	var answered sync.WaitGroup
	answered.Add(20)
	working := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		version0(w)
		fmt.Fprint(w, "0000")
		answered.Done()
	}))
	t.Cleanup(working.Close)
	client := git.New(git.Options{AllowInsecure: true})
	remotes := deployment.NewRemotes(nil, func(ctx context.Context, url string, _ map[string][]byte) ([]git.Ref, string, error) {
		if strings.HasPrefix(url, hanging) {
			ctx = withoutDeadline(ctx)
		}
		return client.Refs(ctx, url, git.Credentials{})
	}, clock.RealClock{})
	t.Cleanup(remotes.Wait) // Forget cancels those in progress
	for change := range 5 {
		for i := range 100 {
			remotes.State(t.Context(), object("attacker", fmt.Sprint("d", i), fmt.Sprint(hanging, change)))
		}
	}
	for i := range 20 {
		remotes.State(t.Context(), object("victim", fmt.Sprint("d", i), working.URL+"/a.git"))
	}
	done := make(chan struct{})
	go func() {
		answered.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute): // for a test that fails
		t.Error("the remotes of the other account are not read")
	}
	if n := open(); n == 0 || n > 8 {
		t.Errorf("%d hanging connections are open, want some and at most those of one account", n)
	}
	for i := range 100 {
		remotes.Forget(ctrlclient.ObjectKey{Namespace: "attacker", Name: fmt.Sprint("d", i)})
	}
}
