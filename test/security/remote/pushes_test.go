package remote_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/apiserver/gitmirror"
)

// enter enters dev mode and returns the name of the personal branch.
func (w *world) enter(account string) string {
	w.Helper()
	_, rest, _ := strings.Cut(w.call(account, "POST", "/dev-mode", nil).is(200).text, `"branchName":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// write writes a file to the personal branch.
func (w *world) write(account, text string) *answer {
	w.Helper()
	return w.call(account, "PUT", "/data-model/files", map[string]any{"files": []map[string]any{{"path": "b.yml", "content": text}}})
}

// agree checks that the mirror of acme has the branches of the host, after a look.
func (w *world) agree(h *host) {
	w.Helper()
	w.later()
	w.call("acme", "GET", "/data-model/files?branchName=main", nil).is(200)
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := w.branches("acme"); !maps.Equal(got, h.heads) {
		w.Errorf("the mirror has %v, the host %v", got, h.heads)
	}
}

// honest makes the host accept pushes again.
func (h *host) honest() { h.set(func() { h.push, h.intercept = nil, nil }) }

// TestLiesAboutPushes: the host says something else than what it does. What it has decides: the mirror
// follows it, no change is made twice, and the next one works.
func TestLiesAboutPushes(t *testing.T) {
	refused := func(commands []command) string {
		return "000eunpack ok\n" + pkt("ng refs/heads/"+commands[0].branch+" protected\n") + "0000"
	}
	for name, tt := range map[string]struct {
		push   func(commands []command) (string, bool)
		status int
		words  string
		// moved is whether the branch has moved on the host.
		moved bool
	}{
		"says accepted, and has not moved": {func([]command) (string, bool) { return "", false }, 200, "", false},
		"says refused, and has moved":      {func(c []command) (string, bool) { return refused(c), true }, 200, "", true},
		"says refused":                     {func(c []command) (string, bool) { return refused(c), false }, 409, "protected", false},
		"reports nothing, and has moved":   {func([]command) (string, bool) { return "0000", true }, 200, "", true},
		"reports nothing":                  {func([]command) (string, bool) { return "0000", false }, 502, "may have been made", false},
		"reports another branch": {func([]command) (string, bool) {
			return "000eunpack ok\n" + pkt("ok refs/heads/other\n") + "0000", false
		},
			409, "not confirmed", false},
		"reports half, and has moved": {func([]command) (string, bool) { return "000eunpack ok\n" + "00ffok refs", true }, 200, "", true},
		"reports without end": {func([]command) (string, bool) {
			return "000eunpack ok\n" + strings.Repeat(pkt("ok refs/heads/x\n"), 200_000), false
		}, 502, "may have been made", false},
		"says that it cannot unpack": {func([]command) (string, bool) { return pkt("unpack index-pack failed\n") + "0000", false }, 409, "index-pack failed", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t, gitmirror.Timeouts{}), newHost(t)
			w.uses("acme", h.url, basic())
			dev := w.enter("acme")
			before := h.at(dev)
			h.set(func() { h.push = tt.push })
			w.write("acme", "b\n").is(tt.status, tt.words)
			if moved := h.at(dev) != before; moved != tt.moved {
				t.Errorf("the branch has moved: %t", moved)
			}
			w.agree(h)
			h.honest()
			at := h.at(dev)
			w.write("acme", "b\n").is(200)
			if made := h.at(dev) != at; made == tt.moved {
				t.Errorf("the repetition has made a commit: %t", made)
			}
			w.agree(h)
		})
	}
}

// TestBranchThatAlwaysMoves: the host refuses each push and has moved the branch each time. The change is
// not planned again without end.
func TestBranchThatAlwaysMoves(t *testing.T) {
	w, h := newWorld(t, gitmirror.Timeouts{}), newHost(t)
	w.uses("acme", h.url, basic())
	dev := w.enter("acme")
	one := h.at(dev)
	w.write("acme", "b\n").is(200)
	two := h.at(dev)
	pushes := 0
	h.set(func() {
		h.push = func([]command) (string, bool) {
			pushes++
			h.set(func() {
				if h.heads[dev] == one {
					h.heads[dev] = two
				} else {
					h.heads[dev] = one
				}
			})
			return "000eunpack ok\n" + pkt("ng refs/heads/"+dev+" failed to lock\n") + "0000", false
		}
	})
	w.write("acme", "c\n").is(409, "has moved")
	if pushes > 10 {
		t.Errorf("%d pushes", pushes)
	}
	h.honest()
	w.write("acme", "c\n").is(200)
	w.agree(h)
}

// TestHangingPush: the host accepts the request of a push and does not answer. The request ends, says that
// the outcome is unknown, and a repetition finds it.
func TestHangingPush(t *testing.T) {
	for name, moves := range map[string]bool{"has moved": true, "has not moved": false} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t, gitmirror.Timeouts{Push: time.Second}), newHost(t)
			w.uses("acme", h.url, basic())
			dev := w.enter("acme")
			before := h.at(dev)
			ended := make(chan struct{})
			h.set(func() {
				h.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "git-receive-pack") {
						return false
					}
					body, _ := io.ReadAll(r.Body)
					if moves {
						h.move(parseCommands(body))
					}
					<-r.Context().Done()
					close(ended)
					return true
				}
			})
			a := w.write("acme", "b\n")
			<-ended // the connection is closed
			if moves {
				a.is(200) // the branch has the commit
			} else {
				a.is(502, "may have been made")
			}
			h.honest()
			if moved := h.at(dev) != before; moved != moves {
				t.Errorf("the branch has moved: %t", moved)
			}
			at := h.at(dev)
			w.write("acme", "b\n").is(200)
			if made := h.at(dev) != at; made == moves {
				t.Errorf("the repetition has made a commit: %t", made)
			}
			w.agree(h)
		})
	}
}

// TestHostileAdvertisements: the host begins a push with what makes a client read or keep without end.
func TestHostileAdvertisements(t *testing.T) {
	for name, tt := range map[string]struct {
		write  func(w io.Writer)
		status int
		words  string
	}{
		"a million branches": {func(w io.Writer) {
			for i := range 1_000_000 {
				if _, err := fmt.Fprint(w, pkt(fmt.Sprintf("%040x refs/heads/b%d\x00report-status\n", i+1, i))); err != nil {
					return
				}
			}
		}, 409, "more than 5000 branches"},
		"no report":         {func(w io.Writer) { fmt.Fprint(w, pkt(zeroID+" capabilities^{}\x00agent=x\n"), "0000") }, 409, "has moved"},
		"another format":    {func(w io.Writer) { fmt.Fprint(w, pkt(zeroID+" capabilities^{}\x00object-format=sha256\n"), "0000") }, 502, "SHA-1"},
		"a page":            {func(w io.Writer) { fmt.Fprint(w, "<html>") }, 502, "not the response of a Git server"},
		"packets of 64 KiB": {func(w io.Writer) { endless(w, []byte("fff0"+strings.Repeat("x", 65516))) }, 502, "not the response of a Git server"},
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t, gitmirror.Timeouts{}), newHost(t)
			w.uses("acme", h.url, basic())
			dev := w.enter("acme")
			before := h.at(dev)
			h.set(func() {
				h.intercept = func(rw http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodGet || !strings.Contains(r.URL.RawQuery, "git-receive-pack") {
						return false
					}
					fmt.Fprint(rw, pkt("# service=git-receive-pack\n"), "0000")
					tt.write(counted{rw, &h.sent})
					return true
				}
			})
			h.sent.Store(0)
			grown := heapDuring(func() { w.write("acme", "b\n").is(tt.status, tt.words) })
			if sent := h.sent.Load(); grown > 48<<20 || sent > 16<<20 {
				t.Errorf("the heap grew by %d KiB, the host has sent %d KiB", grown>>10, sent>>10)
			}
			h.honest()
			if h.at(dev) != before {
				t.Error("the branch has moved")
			}
			w.write("acme", "b\n").is(200)
			w.agree(h)
		})
	}
}
