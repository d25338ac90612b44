package remote_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const zeroID = "0000000000000000000000000000000000000000"

func pkt(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

// host is a Git host whose answers a test chooses. By default it is honest: it has the branches heads,
// serves pack for all of them, and accepts pushes.
type host struct {
	testing.TB
	url string
	// sent counts the bytes of responses.
	sent atomic.Int64

	mu    sync.Mutex
	heads map[string]string
	// refs and pack write the answer to the request of the branches, and what follows "packfile".
	refs, pack func(w io.Writer)
	// intercept, if not nil, is called for each request; it returns true if it has answered it.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	// push returns the report of a push, and whether the branches move.
	push func(commands []command) (report string, moves bool)
	// authorized counts the requests with credentials.
	authorized int
}

// command moves a branch.
type command struct{ from, to, branch string }

// newHost returns a host whose branch main has a file.
func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{TB: t, heads: map[string]string{}}
	h.serves(func(p *pack) [20]byte {
		return p.commit(p.object(treeType, entry("100644", "a.yml", p.object(blobType, []byte("one\n")))))
	})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL + "/model.git"
	return h
}

// serves sets the pack and the branch main to a commit in it.
func (h *host) serves(build func(p *pack) [20]byte) {
	p := &pack{}
	commit := build(p)
	data := p.finish()
	h.heads["main"] = hex.EncodeToString(commit[:])
	h.pack = func(w io.Writer) { band(w, 1, data); fmt.Fprint(w, "0000") }
}

// set changes the host.
func (h *host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// at returns the commit of a branch.
func (h *host) at(branch string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heads[branch]
}

// counted is a response whose bytes are counted.
type counted struct {
	http.ResponseWriter
	sent *atomic.Int64
}

// Write implements io.Writer.
func (c counted) Write(data []byte) (int, error) {
	n, err := c.ResponseWriter.Write(data)
	c.sent.Add(int64(n))
	return n, err
}

// Unwrap is for http.ResponseController.
func (c counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// ServeHTTP implements http.Handler.
func (h *host) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := counted{rw, &h.sent}
	h.mu.Lock()
	intercept, refs, pack := h.intercept, h.refs, h.pack
	if _, _, ok := r.BasicAuth(); ok {
		h.authorized++
	}
	h.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	isPush := strings.Contains(r.URL.RequestURI(), "git-receive-pack")
	if r.Method == http.MethodGet {
		if isPush {
			h.advertise(w)
			return
		}
		fmt.Fprint(w, pkt("version 2\n"), pkt("ls-refs\n"), pkt("fetch\n"), "0000")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case isPush:
		h.receive(w, body)
	case bytes.Contains(body, []byte("command=fetch")):
		fmt.Fprint(w, pkt("packfile\n"))
		pack(w)
	case refs != nil:
		refs(w)
	default:
		h.list(w)
	}
}

// list answers the request of the branches.
func (h *host) list(w io.Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.heads["main"] != "" {
		fmt.Fprint(w, pkt(h.heads["main"]+" HEAD symref-target:refs/heads/main\n"))
	}
	for name, commit := range h.heads {
		fmt.Fprint(w, pkt(commit+" refs/heads/"+name+"\n"))
	}
	fmt.Fprint(w, "0000")
}

// advertise begins a push.
func (h *host) advertise(w io.Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprint(w, pkt("# service=git-receive-pack\n"), "0000")
	capabilities := "\x00report-status delete-refs atomic side-band-64k"
	for name, commit := range h.heads {
		fmt.Fprint(w, pkt(commit+" refs/heads/"+name+capabilities+"\n"))
		capabilities = ""
	}
	fmt.Fprint(w, "0000")
}

// receive answers a push.
func (h *host) receive(w io.Writer, body []byte) {
	commands := parseCommands(body)
	report, moves := "000eunpack ok\n", true
	for _, c := range commands {
		report += pkt("ok refs/heads/" + c.branch + "\n")
	}
	report += "0000"
	h.mu.Lock()
	push := h.push
	h.mu.Unlock()
	if push != nil {
		given, move := push(commands)
		if moves = move; given != "" {
			report = given
		}
	}
	if moves {
		h.move(commands)
	}
	band(w, 1, []byte(report))
	fmt.Fprint(w, "0000")
}

func (h *host) move(commands []command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range commands {
		if h.heads[c.branch] = c.to; c.to == zeroID {
			delete(h.heads, c.branch)
		}
	}
}

func parseCommands(body []byte) (all []command) {
	for len(body) >= 4 {
		var size int
		if _, err := fmt.Sscanf(string(body[:4]), "%04x", &size); err != nil || size < 4 || size > len(body) {
			return all
		}
		text, _, _ := strings.Cut(string(body[4:size]), "\x00")
		if parts := strings.SplitN(strings.TrimSpace(text), " ", 3); len(parts) == 3 {
			all = append(all, command{parts[0], parts[1], strings.TrimPrefix(parts[2], "refs/heads/")})
		}
		body = body[size:]
	}
	return all
}

// band writes data on a band of a multiplexed response.
func band(w io.Writer, number byte, data []byte) {
	for len(data) > 0 {
		n := min(len(data), 60_000)
		fmt.Fprintf(w, "%04x%c", n+5, number)
		if _, err := w.Write(data[:n]); err != nil {
			return
		}
		data = data[n:]
	}
}

// endless writes data again and again until the client disconnects.
func endless(w io.Writer, data []byte) {
	for {
		if _, err := w.Write(data); err != nil {
			return
		}
	}
}

// pack is a pack that is built object by object.
type pack struct {
	bytes.Buffer
	count uint32
}

// Types of objects in a pack.
const (
	commitType   = 1
	treeType     = 2
	blobType     = 3
	refDeltaType = 7
)

// header adds the header of an object whose content is declared to have a size.
func (p *pack) header(kind byte, size int) {
	group := kind<<4 | byte(size&0x0f)
	for size >>= 4; size > 0; size >>= 7 {
		p.WriteByte(group | 0x80)
		group = byte(size & 0x7f)
	}
	p.WriteByte(group)
	p.count++
}

// add adds an object; reference is the base of a delta.
func (p *pack) add(kind byte, size int, reference, content []byte) {
	p.header(kind, size)
	p.Write(reference)
	z := zlib.NewWriter(&p.Buffer)
	_, _ = z.Write(content)
	_ = z.Close()
}

// object adds an object and returns its name.
func (p *pack) object(kind byte, content []byte) [20]byte {
	p.add(kind, len(content), nil, content)
	return nameOf(kind, content)
}

func nameOf(kind byte, content []byte) [20]byte {
	name := map[byte]string{commitType: "commit", treeType: "tree", blobType: "blob"}[kind]
	return sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", name, len(content)), content...))
}

// commit adds a commit of a tree.
func (p *pack) commit(tree [20]byte) [20]byte {
	return p.object(commitType, fmt.Appendf(nil, "tree %x\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nm\n", tree))
}

// begin returns the pack with its header, and without a checksum, for a number of objects.
func (p *pack) begin(count uint32) []byte {
	return append(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), count), p.Bytes()...)
}

// finish returns the pack with header and checksum.
func (p *pack) finish() []byte {
	all := p.begin(p.count)
	sum := sha1.Sum(all)
	return append(all, sum[:]...)
}

func entry(mode, name string, hash [20]byte) []byte {
	return append([]byte(mode+" "+name+"\x00"), hash[:]...)
}
