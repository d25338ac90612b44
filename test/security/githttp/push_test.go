package githttp_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// An attacker with a key pushes 60 files of 16 MiB of zeros, which are 1 MB in the pack. Other users of
// the server rely on its memory: the pack is rejected, and the branch does not exist.
func TestInflationBomb(t *testing.T) {
	w := newWorld(t)
	p := &pack{}
	zeros := make([]byte, 16<<20)
	for i := range 60 {
		zeros[i] = 1
		p.object(blobType, zeros)
	}
	body, text := p.finish(), ""
	grown := heapDuring(func() { text = w.push("1", "main", [20]byte{1}, body) })
	if !strings.Contains(text, "unpack the objects of the pack are larger than") {
		t.Errorf("response %q", text)
	}
	w.noBranches("1")
	w.checkHeap(grown)
}

// An attacker declares an object of a few bytes whose content inflates to 256 MiB.
func TestUndeclaredInflation(t *testing.T) {
	w := newWorld(t)
	p := &pack{}
	p.add(blobType, 10, nil, make([]byte, 256<<20))
	body, text := p.finish(), ""
	grown := heapDuring(func() { text = w.push("1", "main", [20]byte{1}, body) })
	if !strings.Contains(text, "unpack the pack is damaged") {
		t.Errorf("response %q", text)
	}
	w.checkHeap(grown)
}

// An attacker pushes a file of 16 MiB and 20,000 deltas of it, each of which is ten bytes long and makes
// the server read the whole file. The work of one push is bounded, and the push is rejected.
func TestDeltaBomb(t *testing.T) {
	w := newWorld(t)
	p := &pack{}
	base := p.object(blobType, make([]byte, 16<<20))
	for i := range 20_000 {
		// The sizes of base and result, then "insert 3 bytes".
		delta := append([]byte{0x80, 0x80, 0x80, 0x08, 3, 3}, byte(i), byte(i>>8), 'x')
		p.add(refDeltaType, len(delta), base[:], delta)
	}
	body, text := p.finish(), ""
	grown := heapDuring(func() { text = w.push("1", "main", [20]byte{1}, body) })
	if !strings.Contains(text, "unpack the deltas of the pack refer to more than") {
		t.Errorf("response %q", text)
	}
	w.noBranches("1")
	w.checkHeap(grown)
}

// An attacker pushes deltas that all wait for a base at the end of the pack. They are kept in memory, so
// their size is bounded.
func TestWaitingDeltas(t *testing.T) {
	w := newWorld(t)
	p := &pack{}
	noise := make([]byte, 64<<10)
	for i := range 1000 {
		noise[0], noise[1] = byte(i), byte(i>>8)
		p.add(refDeltaType, len(noise), bytes.Repeat([]byte{7}, 20), noise)
	}
	body, text := p.finish(), ""
	grown := heapDuring(func() { text = w.push("1", "main", [20]byte{1}, body) })
	if !strings.Contains(text, "unpack too many objects of the pack are differences from later ones") {
		t.Errorf("response %q", text)
	}
	w.checkHeap(grown)
}

// An attacker pushes 60 trees, each with ten times the one below: 10^60 files. They are counted only up
// to the limit of files.
func TestTreeBomb(t *testing.T) {
	w := newWorld(t)
	p := &pack{}
	hash, mode := p.object(blobType, []byte("x")), "100644"
	for range 60 {
		var tree []byte
		for i := range 10 {
			tree = append(tree, entry(mode, fmt.Sprint(i), hash)...)
		}
		hash, mode = p.object(treeType, tree), "40000"
	}
	commit := p.commit(hash)
	body, text := p.finish(), ""
	grown := heapDuring(func() { text = w.push("1", "main", commit, body) })
	if !strings.Contains(text, "ng refs/heads/main the repository has more than") {
		t.Errorf("response %q", text)
	}
	w.noBranches("1")
	w.checkHeap(grown)
}

// An attacker pushes a tree with names that lead out of the folder in which it is checked out.
func TestHostileNames(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"..", ".", ".git", ".GIT", "a/b", `a\b`, "", "git~1", "a\nb"} {
		p := &pack{}
		commit := p.commit(p.object(treeType, entry("100644", name, p.object(blobType, []byte("x")))))
		if text := w.push("1", "main", commit, p.finish()); strings.Contains(text, "ok refs/heads/main") {
			t.Errorf("a tree with the name %q is accepted", name)
		}
	}
	w.noBranches("1")
	w.seed("1") // a pack that differs in the name only is accepted
}

// An attacker pushes a commit without the objects that it refers to: pods that fetch the branch would
// fail.
func TestMissingObjects(t *testing.T) {
	w := newWorld(t)
	missing := [20]byte{1, 2, 3}
	for name, build := range map[string]func(p *pack) [20]byte{
		"commit": func(*pack) [20]byte { return missing },
		"tree":   func(p *pack) [20]byte { return p.commit(missing) },
		"file":   func(p *pack) [20]byte { return p.commit(p.object(treeType, entry("100644", "a", missing))) },
		"folder": func(p *pack) [20]byte { return p.commit(p.object(treeType, entry("40000", "a", missing))) },
	} {
		p := &pack{}
		p.object(blobType, []byte("unrelated"))
		commit := build(p)
		if text := w.push("1", "main", commit, p.finish()); !strings.Contains(text, "ng refs/heads/main") {
			t.Errorf("without its %s: response %q", name, text)
		}
	}
	w.noBranches("1")
	w.seed("1") // with all objects
}

// An attacker pushes a million branches in one request.
func TestMillionRefs(t *testing.T) {
	w := newWorld(t)
	var body bytes.Buffer
	for i := range 1_000_000 {
		capabilities := ""
		if i == 0 {
			capabilities = "\x00report-status"
		}
		body.WriteString(line(fmt.Sprintf("%s %040x refs/heads/b%d%s", zeroID, i+1, i, capabilities)))
	}
	status, text := 0, ""
	reader := io.LimitReader(&body, 60<<20) // below the limit of the body
	grown := heapDuring(func() { status, text = w.send("1", receivePack, reader) })
	if status == 200 || strings.Contains(text, "ok refs/heads/") {
		t.Errorf("status %d: %.200q", status, text)
	}
	w.noBranches("1")
	w.checkHeap(grown)
}
