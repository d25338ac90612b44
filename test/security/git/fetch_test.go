package git_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/quoin-dev/quoin/internal/git"
)

// TestHostileServersOfAFetch: a Git server sends an init container that fetches a commit a
// million refs, or messages without end before the pack. The pod relies on an error, and on
// memory that does not depend on the server.
func TestHostileServersOfAFetch(t *testing.T) {
	old := func(pack http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				pack(w, r)
				return
			}
			fmt.Fprint(w, pkt("# service=git-upload-pack\n"), "0000", pkt(commit+" HEAD\x00shallow side-band-64k\n"))
			pullRequests(w, 1_000_000)
			fmt.Fprint(w, "0000")
		}
	}
	attacks := map[string]hostileServer{
		"a commit that is not there":      {old(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, pkt("ERR upload-pack: not our ref")) }), git.ErrCommitNotFound},
		"shallow commits without end":     {old(func(w http.ResponseWriter, _ *http.Request) { endless(w, pkt("shallow "+commit)) }), git.ErrTooLarge},
		"shallow commits, version 2":      {newServer(func(w http.ResponseWriter, _ *http.Request) { endless(w, pkt("shallow "+commit)) }), git.ErrUnexpectedResponse},
		"a section without end":           {twoRequests(pkt("shallow " + commit)), git.ErrTooLarge},
		"ends of sections without end":    {twoRequests("0001"), git.ErrTooLarge},
		"a pack without a pack's content": {twoRequests(pkt("packfile\n") + "0000"), git.ErrUnreachable},
	}
	for name, tt := range attacks {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			t.Cleanup(server.Close)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := git.New(git.Options{AllowInsecure: true}).Fetch(t.Context(), git.FetchOptions{
				URL: server.URL + "/a.git", Commit: "2" + commit[1:], Dir: filepath.Join(t.TempDir(), "model"),
			})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 6<<20 {
				t.Errorf("the fetch allocates %d KiB", allocated>>10)
			}
		})
	}
}

// twoRequests lists no branches, in version 2 of the protocol, and answers the request of a pack
// with the text without end.
func twoRequests(text string) http.HandlerFunc {
	requests := 0
	return newServer(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests%2 == 1 {
			fmt.Fprint(w, "0000")
			return
		}
		endless(w, text)
	})
}
