package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

const (
	// maxObject is the largest file of a data model.
	maxObject = 16 << 20
	// maxHeap is what a download may need: twice the 64 MiB that a session holds, and copies of objects, because
	// the garbage collector lets the heap grow to twice what is in use.
	maxHeap = 384 << 20
	// maxSent is what is read of a download: the limit, and the buffers of the connection.
	maxSent = 256<<20 + 32<<20
)

// download is what a hostile host sends after the request of the objects.
type download struct {
	// pack prepares the response.
	pack   func() func(w io.Writer)
	status int
	words  string
}

// finished returns the pack that build builds, as a response.
func finished(build func(p *pack)) func() func(w io.Writer) {
	return func() func(w io.Writer) {
		p := &pack{}
		build(p)
		data := p.finish()
		return func(w io.Writer) { band(w, 1, data); fmt.Fprint(w, "0000") }
	}
}

// raw returns a response that is written as it is.
func raw(write func(w io.Writer)) func() func(w io.Writer) {
	return func() func(w io.Writer) { return write }
}

// copies returns a delta whose result is its base of maxObject zeros, with another last byte.
func copies(last byte) []byte {
	size := []byte{0x80, 0x80, 0x80, 0x08}
	delta := append(bytes.Clone(size), size...)
	return append(delta, 0xf0, 0xff, 0xff, 0xff, 1, last) // copy 0xffffff bytes, insert one
}

// chain adds deltas of 64 KiB, each of the result of the one before, in the opposite order, and their base
// last.
func chain(p *pack, n int) {
	const size = 64 << 10
	content := make([]byte, size)
	base := bytes.Clone(content)
	type link struct{ base, delta []byte }
	var links []link
	for i := 1; i <= n; i++ {
		name := nameOf(blobType, content)
		delta := []byte{0x80, 0x80, 0x04, 0x80, 0x80, 0x04, 0xb1, 2, 0xfe, 0xff, 2, byte(i), byte(i >> 8)} // copy from 2, insert 2
		links = append(links, link{name[:], delta})
		content = append(bytes.Clone(content[2:]), byte(i), byte(i>>8))
	}
	for i := range links {
		l := links[len(links)-1-i]
		p.add(refDeltaType, len(l.delta), l.base, l.delta)
	}
	p.object(blobType, base)
}

func downloads(h *host) map[string]download {
	message := bytes.Repeat([]byte("x"), 60_000)
	zeros := make([]byte, maxObject)
	first := h.heads["main"]
	model := func(p *pack) {
		if fmt.Sprintf("%x", p.commit(p.object(treeType, entry("100644", "a.yml", p.object(blobType, []byte("one\n")))))) != first {
			h.Error("the pack does not have the commit of main")
		}
	}
	all := map[string]download{
		"messages without end": {raw(func(w io.Writer) {
			for {
				if _, err := fmt.Fprintf(w, "%04x\x02%s", len(message)+5, message); err != nil {
					return
				}
			}
		}), 409, "the download is larger than"},
		"an object without end": {raw(func(w io.Writer) {
			p := &pack{}
			p.header(blobType, maxObject)
			p.Write([]byte{0x78, 0x9c})
			band(w, 1, p.begin(1))
			var empty bytes.Buffer
			band(&empty, 1, bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 12_000)) // blocks without content
			endless(w, empty.Bytes())
		}), 409, "the download is larger than"},
		"four billion objects":     {raw(func(w io.Writer) { band(w, 1, (&pack{}).begin(0xffffffff)) }), 409, "4294967295 objects"},
		"an undeclared inflation":  {finished(func(p *pack) { p.add(blobType, 10, nil, make([]byte, 256<<20)) }), 409, "the pack is damaged"},
		"an object that is larger": {finished(func(p *pack) { p.object(blobType, make([]byte, maxObject+1)) }), 409, "larger than 16777216 bytes"},
		"a gigabyte of zeros": {finished(func(p *pack) {
			content := bytes.Clone(zeros)
			for i := range 65 {
				content[i] = 1
				p.object(blobType, content)
			}
		}), 409, "the objects of the pack are larger than"},
		"a pack without its commit": {finished(func(p *pack) { p.object(blobType, []byte("unrelated")) }), 409, first},
		"a commit without its tree": {finished(func(p *pack) { p.commit([20]byte{1}) }), 409, "does not exist"},
		"another commit":            {finished(func(p *pack) { p.commit(p.object(treeType, nil)) }), 409, first},
		"an error":                  {raw(func(w io.Writer) { band(w, 3, []byte("no "+password)) }), 502, "no usable response"},
		"no pack":                   {raw(func(io.Writer) {}), 409, "the pack is damaged"},
		"half a pack": {raw(func(w io.Writer) {
			p := &pack{}
			p.object(blobType, bytes.Repeat([]byte("x"), 1000))
			data := p.finish()
			band(w, 1, data[:len(data)/2])
		}), 409, "the pack is damaged"},
		"data after the pack without end": {raw(func(w io.Writer) {
			p := &pack{}
			model(p)
			band(w, 1, p.finish())
			var more bytes.Buffer
			band(&more, 1, message)
			endless(w, more.Bytes())
		}), 200, "/a.yml"},
	}
	maps.Copy(all, deltas(model))
	return all
}

// deltas are downloads with objects that are differences from others. model adds those of main.
func deltas(model func(p *pack)) map[string]download {
	zeros := make([]byte, maxObject)
	zeroName := nameOf(blobType, zeros)
	return map[string]download{
		"deltas that wait for a large file": {finished(func(p *pack) {
			for i := range 30 {
				delta := copies(byte(i + 1))
				p.add(refDeltaType, len(delta), zeroName[:], delta)
			}
			p.object(blobType, zeros)
			model(p)
		}), 200, "/a.yml"},
		"a chain of deltas": {finished(func(p *pack) { chain(p, 1500); model(p) }), 200, "/a.yml"},
		"deltas that wait for ever": {finished(func(p *pack) {
			noise := bytes.Repeat([]byte{1, 2, 3}, 100_000)
			for i := range 100 {
				p.add(refDeltaType, len(noise), bytes.Repeat([]byte{byte(i)}, 20), noise)
			}
		}), 409, "differences from later ones"},
		"deltas of a large file": {finished(workBomb), 409, "the deltas of the pack refer to more than"},
	}
}

// workBomb adds a large file and many deltas of it, of nine bytes each.
func workBomb(p *pack) {
	base := p.object(blobType, make([]byte, maxObject))
	for i := range 20_000 {
		p.add(refDeltaType, 9, base[:], []byte{0x80, 0x80, 0x80, 0x08, 3, 3, byte(i), byte(i >> 8), 'x'})
	}
}

// TestHostileDownloads: the host sends what makes a client read, inflate or keep without end. What is read
// and the memory are bounded, the error says that the repository is the reason, and when the host is
// honest again, the deployment works.
func TestHostileDownloads(t *testing.T) {
	for name := range downloads(newHost(t)) {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t, gitmirror.Timeouts{Look: 5 * time.Minute, Wait: 5 * time.Minute}), newHost(t)
			w.uses("acme", h.url, basic())
			honest, attack := h.pack, downloads(h)[name]
			hostile := attack.pack()
			h.set(func() { h.pack = hostile })
			grown := heapDuring(func() { w.call("acme", "GET", "/data-model/files", nil).is(attack.status, attack.words) })
			t.Logf("the heap grew by %d MiB, the host has sent %d MiB", grown>>20, h.sent.Load()>>20)
			if grown > maxHeap {
				t.Errorf("the heap grew by %d MiB; allowed: %d", grown>>20, maxHeap>>20)
			}
			if sent := h.sent.Load(); sent > maxSent {
				t.Errorf("the host has sent %d bytes; allowed: %d", sent, maxSent)
			}
			if got := w.branches("acme"); attack.status != 200 && len(got) > 0 {
				t.Errorf("the mirror has %v", got)
			}
			h.set(func() { h.pack = honest })
			w.later()
			w.call("acme", "GET", "/data-model/files", nil).is(200, "/a.yml")
		})
	}
}

// TestHostileLists: the host answers the request of the branches with a million of them, or without end.
func TestHostileLists(t *testing.T) {
	commit := "1000000000000000000000000000000000000000"
	lines := func(format string, n int) func(w io.Writer) {
		return func(w io.Writer) {
			var part bytes.Buffer
			for i := 0; i < n || n == 0; i++ {
				part.WriteString(pkt(fmt.Sprintf(format, commit, i)))
				if part.Len() < 32<<10 {
					continue
				}
				if _, err := part.WriteTo(w); err != nil {
					return
				}
			}
			fmt.Fprint(w, "0000")
		}
	}
	for name, tt := range map[string]struct {
		refs  func(w io.Writer)
		words string
	}{
		"a million branches":        {lines("%s refs/heads/b%d\n", 1_000_000), "more than 5000 branches"},
		"a million pull requests":   {lines("%s refs/pull/%d/head\n", 1_000_000), "the list of refs is too large"},
		"pull requests without end": {lines("%s refs/pull/%d/head\n", 0), "the list of refs is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t, gitmirror.Timeouts{}), newHost(t)
			w.uses("acme", h.url, basic())
			h.set(func() { h.refs = tt.refs })
			grown := heapDuring(func() { w.call("acme", "GET", "/data-model/files", nil).is(409, tt.words) })
			if sent := h.sent.Load(); grown > 32<<20 || sent > 32<<20 {
				t.Errorf("the heap grew by %d KiB, the host has sent %d KiB", grown>>10, sent>>10)
			}
			h.set(func() { h.refs = nil })
			w.later()
			w.call("acme", "GET", "/data-model/files", nil).is(200, "/a.yml")
		})
	}
}

// TestHangingDownload: the host stops in the middle of an answer. The request ends, the look too, and the
// next one is told so; an honest host is read again.
func TestHangingDownload(t *testing.T) {
	for _, part := range []string{"info/refs", "command=ls-refs", "command=fetch"} {
		t.Run(part, func(t *testing.T) {
			w, h := newWorld(t, gitmirror.Timeouts{List: 300 * time.Millisecond, Look: 300 * time.Millisecond, Wait: 100 * time.Millisecond}), newHost(t)
			w.uses("acme", h.url, basic())
			ended := make(chan struct{}, 1000)
			h.set(func() {
				h.intercept = func(rw http.ResponseWriter, r *http.Request) bool {
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					if !bytes.Contains(append(body, r.URL.Path...), []byte(part)) {
						return false
					}
					if part == "command=fetch" {
						fmt.Fprint(rw, pkt("packfile\n"))
						band(rw, 1, (&pack{}).begin(3))
					}
					_ = http.NewResponseController(rw).Flush()
					<-r.Context().Done()
					ended <- struct{}{}
					return true
				}
			})
			w.call("acme", "GET", "/data-model/files", nil).is(503, "still being read")
			<-ended // the connection is closed
			for {
				a := w.call("acme", "GET", "/data-model/files", nil)
				if a.status == 502 {
					a.is(502, "timed out")
					break
				}
				a.is(503)
			}
			h.set(func() { h.intercept = nil })
			w.later()
			for range 100 { // the timeouts of this test are short
				if w.call("acme", "GET", "/data-model/files", nil).status == 200 {
					return
				}
				w.later()
			}
			t.Error("the honest host is not read")
		})
	}
}

// TestReadsWhileTheHostHangs: a host that accepts connections and does not answer: reads use what was read of it in
// the last ten minutes. A change needs an answer.
func TestReadsWhileTheHostHangs(t *testing.T) {
	w, h := newWorld(t, gitmirror.Timeouts{List: time.Hour, Look: time.Hour, Wait: 200 * time.Millisecond}), newHost(t)
	w.uses("acme", h.url, basic())
	read := func() *answer { return w.call("acme", "GET", "/data-model/files?branchName=main", nil) }
	first := read()
	for first.status != 200 { // a slow machine
		first = read()
	}
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	h.set(func() {
		h.intercept = func(http.ResponseWriter, *http.Request) bool {
			<-release
			return true
		}
	})
	w.later()
	read().is(200, "a.yml")
	w.write("acme", "b\n").is(503, "still being read")
	for range 10 {
		w.later()
	}
	read().is(503, "still being read")
}

// TestClientLeaves: a request whose client disconnects ends, while the host hangs.
func TestClientLeaves(t *testing.T) {
	w, h := newWorld(t, gitmirror.Timeouts{}), newHost(t)
	w.uses("acme", h.url, basic())
	ctx, leave := context.WithCancel(t.Context())
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	h.set(func() {
		h.intercept = func(http.ResponseWriter, *http.Request) bool {
			leave()
			<-release
			return true
		}
	})
	w.callOf(ctx, "acme", "7", "GET", "/data-model/files", nil).is(503)
}

// TestUnpackingTakesTurns: while a host makes the server apply deltas of a large file, work of other
// accounts runs between them.
func TestUnpackingTakesTurns(t *testing.T) {
	w, h := newWorld(t, gitmirror.Timeouts{Look: 5 * time.Minute, Wait: 5 * time.Minute}), newHost(t)
	w.uses("acme", h.url, basic())
	hostile := finished(workBomb)()
	h.set(func() { h.pack = hostile })
	done := make(chan struct{})
	turns := make(chan int)
	go func() {
		n := 0
		defer func() { turns <- n }()
		for {
			select {
			case <-done:
				return
			default:
			}
			turn, err := fairsemaphore.Processors.Begin(context.Background(), "victim")
			if err != nil {
				return
			}
			n++
			time.Sleep(time.Millisecond)
			turn.End()
		}
	}()
	w.call("acme", "GET", "/data-model/files", nil).is(409, "the deltas of the pack refer to more than")
	close(done)
	// The limit is reached after 512 deltas.
	if n := <-turns; n < 200 {
		t.Errorf("the other account had %d turns", n)
	}
}
