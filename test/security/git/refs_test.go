// Package git_test attacks the controller through the Git servers that tenants name: every
// tenant can make the shared controller read a server of the tenant's choice.
package git_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-dev/quoin/internal/git"
)

const (
	commit = "1000000000000000000000000000000000000000"
	// looks is the number of simultaneous looks of an attack.
	looks = 8
	// maxLookBytes is what one look may allocate, whatever the server sends: connection, buffer
	// and the branches it keeps.
	maxLookBytes = 1 << 20
)

func pkt(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

// version0 begins the answer of a server that knows only the first version of the protocol.
func version0(w io.Writer) {
	fmt.Fprint(w, pkt("# service=git-upload-pack\n"), "0000")
	fmt.Fprint(w, pkt(commit+" HEAD\x00symref=HEAD:refs/heads/main agent=test\n"))
	fmt.Fprint(w, pkt(commit+" refs/heads/main\n"))
}

// pullRequests writes n refs outside refs/heads.
func pullRequests(w io.Writer, n int) {
	var chunk []byte
	for i := range n {
		chunk = append(chunk, "0044"+commit+" refs/pull/"...)
		chunk = strconv.AppendInt(chunk, int64(1_000_000+i), 10)
		chunk = append(chunk, "/head\n"...)
		if len(chunk) < 64<<10 && i < n-1 {
			continue
		}
		if _, err := w.Write(chunk); err != nil {
			return
		}
		chunk = chunk[:0]
	}
}

// attack reads the server in several looks at the same time, and returns the result of one and
// what a look allocated, the server's own allocations included.
func attack(t *testing.T, handler http.HandlerFunc) (refs []git.Ref, bytesPerLook uint64, err error) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client := git.New(git.Options{AllowInsecure: true})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range looks {
		wg.Go(func() {
			got, _, failure := client.Refs(context.Background(), server.URL+"/a.git", git.Credentials{})
			mu.Lock()
			defer mu.Unlock()
			refs, err = got, failure
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	bytesPerLook = (after.TotalAlloc - before.TotalAlloc) / looks
	t.Logf("%d KiB allocated a look", bytesPerLook>>10)
	return refs, bytesPerLook, err
}

// TestMillionPullRequests: a tenant names a repository with a million refs outside refs/heads
// on a server that knows only the first version of the protocol, which sends all of them. The
// others rely on a controller whose memory does not grow with the refs of one repository.
func TestMillionPullRequests(t *testing.T) {
	refs, allocated, err := attack(t, func(w http.ResponseWriter, _ *http.Request) {
		version0(w)
		pullRequests(w, 1_000_000)
		fmt.Fprint(w, "0000")
	})
	if err != nil || len(refs) != 1 {
		t.Errorf("%d branches, %v; want one", len(refs), err)
	}
	if allocated > maxLookBytes {
		t.Errorf("a look allocates %d KiB, want at most %d", allocated>>10, maxLookBytes>>10)
	}
}

// endless sends the text until the client disconnects.
func endless(w io.Writer, text string) {
	chunk := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// oldServer sends the text without end, as refs in the first version of the protocol.
func oldServer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		version0(w)
		endless(w, text)
	}
}

// newServer answers the request of the branches, in version 2 of the protocol, with answer.
func newServer(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			answer(w, r)
			return
		}
		fmt.Fprint(w, pkt("version 2\n"), pkt("ls-refs\n"), pkt("fetch=shallow\n"), "0000")
	}
}

// endlessCapabilities sends capabilities of different names.
func endlessCapabilities() http.HandlerFunc {
	var list strings.Builder
	for i := range 5000 {
		list.WriteString(pkt(fmt.Sprintf("capability%d\n", i)))
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, pkt("version 2\n"))
		endless(w, list.String())
	}
}

// bomb sends 64 MiB of refs compressed to some 200 KiB.
func bomb() http.HandlerFunc {
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, _ = io.WriteString(writer, strings.Repeat(pkt(commit+" refs/pull/1/head\n"), 1<<20))
	_ = writer.Close()
	return newServer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(compressed.Bytes())
	})
}

func redirect(prefix string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, prefix+r.URL.RequestURI(), status) }
}

// hostileServers maps what a server does to its handler and to the error of a look.
func hostileServers() map[string]hostileServer {
	header := strings.Repeat("x", 1<<20)
	return map[string]hostileServer{
		"refs outside refs/heads without end": {oldServer(pkt(commit + " refs/pull/1/head\n")), git.ErrTooLarge},
		"branches without end":                {oldServer(pkt(commit + " refs/heads/x\n")), git.ErrTooLarge},
		"branches with long names":            {oldServer(pkt(commit + " refs/heads/" + strings.Repeat("x", 1000))), git.ErrTooLarge},
		"names of 64 KiB":                     {oldServer(pkt(commit + " refs/heads/" + strings.Repeat("x", 65000))), git.ErrTooLarge},
		"shallow commits without end":         {oldServer(pkt("shallow " + commit)), git.ErrTooLarge},
		"packets shorter than their length":   {oldServer("0003"), git.ErrUnexpectedResponse},
		"empty packets without end":           {oldServer("0004"), git.ErrUnexpectedResponse},
		"capabilities without end":            {endlessCapabilities(), git.ErrUnexpectedResponse},
		"the same capability without end":     {func(w http.ResponseWriter, _ *http.Request) { endless(w, pkt("version 2\n")) }, git.ErrTooLarge},
		"branches without end, version 2": {newServer(func(w http.ResponseWriter, _ *http.Request) {
			endless(w, pkt(commit+" refs/heads/x symref-target:refs/heads/y\n"))
		}), git.ErrTooLarge},
		"compressed refs":          {bomb(), git.ErrTooLarge},
		"a header of a megabyte":   {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", header) }, git.ErrUnreachable},
		"redirects without end":    {redirect("/again", http.StatusFound), git.ErrUnexpectedResponse},
		"a request sent elsewhere": {newServer(redirect("http://127.0.0.1:1", http.StatusTemporaryRedirect)), git.ErrUnexpectedResponse},
	}
}

type hostileServer struct {
	handler http.HandlerFunc
	err     error
}

// TestHostileServers: a tenant runs a Git server that sends what makes a client allocate or
// read without end. The others rely on looks that end, and whose memory does not depend on
// the server.
func TestHostileServers(t *testing.T) {
	const limit = 6 << 20 // a look keeps at most 1 MiB of names in a list that grows
	for name, tt := range hostileServers() {
		t.Run(name, func(t *testing.T) {
			_, allocated, err := attack(t, tt.handler)
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if allocated > limit {
				t.Errorf("a look allocates %d KiB, want at most %d", allocated>>10, limit>>10)
			}
		})
	}
}
