package githttp

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/content/repository"
)

// message returns packets; "" is a flush packet, and "\x01" a delimiter.
func message(lines ...string) []byte {
	var out bytes.Buffer
	p := &packetWriter{w: &out}
	for _, line := range lines {
		switch line {
		case "":
			p.flush()
		case "\x01":
			p.delimiter()
		default:
			p.line("%s", line)
		}
	}
	return out.Bytes()
}

const someID = "1234567890123456789012345678901234567890"

// Whatever a client sends, the commands of a push are valid or rejected.
func FuzzCommands(f *testing.F) {
	f.Add(message(zeroID+" "+someID+" refs/heads/main\x00report-status side-band-64k", ""))
	f.Add(message("shallow "+someID, someID+" "+zeroID+" refs/heads/x\x00push-options", "", "option", ""))
	f.Add([]byte("0000"))
	f.Add([]byte("0003"))
	f.Add([]byte("fffe"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &push{}
		err := p.readCommands(newPacketReader(bytes.NewReader(data), maxCommandBytes))
		if len(p.commands) > maxCommands {
			t.Errorf("%d commands", len(p.commands))
		}
		checkRejection(t, err)
		for _, c := range p.commands {
			if c.ref == "" {
				t.Errorf("command %+v", c)
			}
		}
	})
}

// Whatever a client sends, the arguments of a fetch are valid or rejected.
func FuzzWants(f *testing.F) {
	f.Add(message("want "+someID+" multi_ack_detailed side-band-64k", "shallow "+someID, "deepen 3", "", "have "+someID, "", "done"))
	f.Add(message("want "+someID, "", "done"))
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &upload{in: newPacketReader(bufio.NewReader(bytes.NewReader(data)), maxFetchRequest)}
		r := &fetchRequest{}
		checkRejection(t, u.readWants(r))
		if len(r.Wants) > maxWants || len(r.Haves) > maxLookups || r.Depth < 0 {
			t.Errorf("%d wants, %d haves, depth %d", len(r.Wants), len(r.Haves), r.Depth)
		}
	})
}

// Whatever a client sends in version 2, the arguments of a command are valid or rejected, and the refs that
// it gets are branches.
func FuzzArguments(f *testing.F) {
	f.Add(message("want "+someID, "have "+someID, "deepen 3", "done", ""))
	f.Add(message("peel", "symrefs", "ref-prefix refs/heads/", "ref-prefix HEAD", ""))
	f.Add(message("deepen-since 1", "shallow x", ""))
	f.Fuzz(func(t *testing.T, data []byte) {
		arguments := func(add func(string) error) {
			u := &upload{in: newPacketReader(bytes.NewReader(data), maxFetchRequest)}
			checkRejection(t, u.arguments(true, add))
		}
		fetch := &fetchRequest{}
		arguments(func(line string) error { _, err := fetch.add(line); return err })
		if len(fetch.Wants) > maxWants || len(fetch.Haves) > maxLookups || fetch.Depth < 0 {
			t.Errorf("%d wants, %d haves, depth %d", len(fetch.Wants), len(fetch.Haves), fetch.Depth)
		}
		refs := &refsRequest{}
		arguments(func(line string) error { refs.add(line); return nil })
		var out bytes.Buffer
		refs.serve(&packetWriter{w: &out}, "main", []repository.Branch{{Name: "main"}, {Name: "next"}})
		for in := newPacketReader(&out, maxFetchRequest); ; {
			line, ok, err := in.data()
			if err != nil || !ok {
				checkRejection(t, err)
				return
			}
			if id, ref, _ := strings.Cut(line, " "); id != zeroID || !strings.HasPrefix(ref, "HEAD") && !strings.HasPrefix(ref, "refs/heads/") {
				t.Fatalf("ref %q", line)
			}
		}
	})
}

func checkRejection(t *testing.T, err error) {
	t.Helper()
	var rejected rejection
	if err != nil && !errors.As(err, &rejected) {
		t.Errorf("error %v is not for the caller", err)
	}
}
