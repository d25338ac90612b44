package githttp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

const version2 = "version=2"

// seed pushes a commit and returns its name.
func (w *world) seed(id string) string {
	w.Helper()
	p := &pack{}
	commit := p.commit(p.object(treeType, entry("100644", "secret.yml", p.object(blobType, []byte("of repository "+id)))))
	if text := w.push(id, "main", commit, p.finish()); !strings.Contains(text, "ok refs/heads/main") {
		w.Fatalf("response %q", text)
	}
	return hex.EncodeToString(commit[:])
}

// An attacker requests objects of another deployment by their names, and pushes a branch at a commit of
// it: neither reveals whether the object exists there.
func TestForeignObjects(t *testing.T) {
	w := newWorld(t)
	foreign := w.seed("2")
	w.seed("1")
	for _, wanted := range []string{foreign, strings.Repeat("1", 40)} {
		body := line("command=fetch") + "0001" + line("want "+wanted) + line("done") + "0000"
		_, text := w.send("1", uploadPack, strings.NewReader(body), "Git-Protocol", version2)
		if want := "ERR upload-pack: not our ref " + wanted; !strings.Contains(text, want) || strings.Contains(text, "PACK") {
			t.Errorf("response %q, want %q", text, want)
		}
		command := line(zeroID+" "+wanted+" refs/heads/stolen\x00report-status") + "0000"
		empty := &pack{}
		var body2 bytes.Buffer
		body2.WriteString(command)
		_, _ = body2.ReadFrom(empty.finish())
		if _, text := w.send("1", receivePack, &body2); !strings.Contains(text, "ng refs/heads/stolen the push lacks objects") {
			t.Errorf("response %q", text)
		}
	}
}

// An attacker requests 30,000 commits, or claims to have as many, in a request of 50 KB.
func TestHugeWantList(t *testing.T) {
	w := newWorld(t)
	commit := w.seed("1")
	for name, build := range map[string]func(i int) string{
		"want": func(i int) string { return fmt.Sprintf("want %040x", i) },
		"have": func(i int) string { return fmt.Sprintf("have %040x", i) },
		"refs": func(i int) string { return fmt.Sprintf("ref-prefix refs/heads/%d", i) },
	} {
		var body bytes.Buffer
		compressed := gzip.NewWriter(&body)
		command := line("command=fetch") + "0001" + line("want "+commit)
		if name == "refs" {
			command = line("command=ls-refs") + "0001"
		}
		fmt.Fprint(compressed, command)
		for i := range 30_000 {
			fmt.Fprint(compressed, line(build(i)))
		}
		fmt.Fprint(compressed, "0000")
		if err := compressed.Close(); err != nil {
			t.Fatal(err)
		}
		text := ""
		grown := heapDuring(func() {
			_, text = w.send("1", uploadPack, &body, "Git-Protocol", version2, "Content-Encoding", "gzip")
		})
		if strings.Contains(text, "PACK") || len(text) > 1000 {
			t.Errorf("%s: response %.200q", name, text)
		}
		w.checkHeap(grown)
	}
}

// An attacker sends a request that inflates to 256 MiB.
func TestCompressedRequest(t *testing.T) {
	w := newWorld(t)
	var body bytes.Buffer
	compressed := gzip.NewWriter(&body)
	packet := []byte(line(strings.Repeat("x", 1000)))
	for range 1 << 18 {
		if _, err := compressed.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{uploadPack, receivePack} {
		text := ""
		grown := heapDuring(func() {
			_, text = w.send("1", service, bytes.NewReader(body.Bytes()), "Content-Encoding", "gzip")
		})
		if strings.Contains(text, "PACK") || strings.Contains(text, "unpack ok") {
			t.Errorf("%s: response %.200q", service, text)
		}
		w.checkHeap(grown)
	}
}
